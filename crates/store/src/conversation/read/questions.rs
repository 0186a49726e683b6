//! Reading the closed questions of a conversation.

use houston_domain::conversation::{ExportedApproval, ExportedQuestion};
use houston_domain::question::approval::Approval;
use houston_domain::question::{QuestionKind, QuestionState};
use serde_json::Value;
use uuid::Uuid;

use super::{End, PAGE, Reader};
use crate::error::Result;
use crate::question::StoredApproval;

/// What an export has of an approval.
fn exported(approval: Value) -> Option<ExportedApproval> {
    let Approval { tool, input, why, .. } = serde_json::from_value(approval).ok()?;
    Some(ExportedApproval { tool, input, why })
}

impl Reader<'_> {
    /// The questions that were closed by the end of the thread. An open one belongs to a turn that is not complete.
    pub(super) async fn questions(&mut self, end: End) -> Result<Vec<ExportedQuestion>> {
        let mut questions: Vec<ExportedQuestion> = Vec::new();
        let mut after = Uuid::nil();
        loop {
            let rows = sqlx::query!(
                r#"-- store::conversation::read::questions::questions
                select id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by, created_at,
                       closed_at as "closed_at!", approval,
                       octet_length(concat(text, schema::text, default_value::text, answer::text, approval::text)) as "bytes!"
                  from houston.questions
                 where tenant_id = $1 and agentable_id = $2 and id > $3 and state <> 'open'
                   and ($4::timestamptz is null or closed_at <= $4)
                 order by id limit $5"#,
                self.tenant.0,
                self.agentable.id.0,
                after,
                end.at,
                PAGE
            )
            .fetch_all(&mut *self.connection)
            .await?;
            let is_last = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            for row in rows {
                self.count(usize::try_from(row.bytes).unwrap_or(0))?;
                after = row.id;
                questions.push(ExportedQuestion {
                    kind: QuestionKind::from_name(&row.kind).unwrap_or(QuestionKind::Input),
                    subject: row.subject,
                    text: row.text,
                    schema: row.schema.or_else(|| StoredApproval::schema(row.approval.as_ref())),
                    default_value: row.default_value,
                    expires_at: row.expires_at,
                    state: QuestionState::from_name(&row.state).unwrap_or(QuestionState::Cancelled),
                    answer: row.answer,
                    answered_by: row.answered_by,
                    created_at: row.created_at,
                    closed_at: row.closed_at,
                    approval: row.approval.and_then(exported),
                });
            }
            if is_last {
                return Ok(questions);
            }
        }
    }
}
