//! Inserting the questions of a document. They belong to its completed run, and are closed.

use chrono::{DateTime, Utc};
use houston_domain::conversation::{Conversation, ExportedApproval, ExportedQuestion};
use houston_domain::id::Ids;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{Owner, ROWS, pieces, rising};
use crate::error::Result;

/// A column of JSON values.
fn values<'q>(
    questions: &'q [ExportedQuestion],
    of: impl Fn(&'q ExportedQuestion) -> &'q Option<Value>,
) -> Vec<Option<Json<&'q Value>>> {
    questions.iter().map(|question| of(question).as_ref().map(Json)).collect()
}

impl Owner {
    pub(super) async fn questions(
        &self,
        connection: &mut PgConnection,
        conversation: &Conversation,
        ids: &Ids,
    ) -> Result<()> {
        let ids = rising(ids, self.agentable, conversation.questions.len());
        for ((_, questions), ids) in pieces(&conversation.questions).zip(ids.chunks(ROWS)) {
            let each = || questions.iter();
            let kinds: Vec<&str> = each().map(|one| one.kind.as_str()).collect();
            let subjects: Vec<Option<&str>> = each().map(|one| one.subject.as_deref()).collect();
            let texts: Vec<&str> = each().map(|one| one.text.as_str()).collect();
            let schemas = values(questions, |one| &one.schema);
            let defaults = values(questions, |one| &one.default_value);
            let expire: Vec<Option<DateTime<Utc>>> = each().map(|one| one.expires_at).collect();
            let states: Vec<&str> = each().map(|one| one.state.as_str()).collect();
            let answers = values(questions, |one| &one.answer);
            let by: Vec<Option<&str>> = each().map(|one| one.answered_by.as_deref()).collect();
            let created: Vec<DateTime<Utc>> = each().map(|one| one.created_at).collect();
            // Call ids are unique within a run only: of several cells the one that came with the question.
            let approvals: Vec<Option<Json<&ExportedApproval>>> =
                each().map(|one| one.approval.as_ref().map(Json)).collect();
            let closed: Vec<DateTime<Utc>> = each().map(|one| one.closed_at).collect();
            sqlx::query!(
                "-- store::conversation::make::questions::questions
                insert into houston.questions (id, tenant_id, user_id, agentable_id, run_id, kind, subject, text, schema,
                                               default_value, expires_at, state, answer, answered_by, created_at,
                                               closed_at, approval)
                select q.id, $2, k.user_id, $1, $3, q.kind, q.subject, q.text, q.schema, q.default_value, q.expires_at,
                       q.state, q.answer, q.answered_by, q.created_at, q.closed_at,
                       (select q.approval || jsonb_build_object('message_id', 'msg_' || replace(m.id::text, '-', ''))
                          from houston.messages m
                         where m.agentable_id = $1 and m.message_type = 'tool' and m.metadata ->> 'call_id' = q.subject
                         order by abs(extract(epoch from m.created_at - q.created_at)) limit 1)
                  from houston.run_locks k
                 cross join unnest($4::uuid[], $5::text[], $6::text[], $7::text[], $8::jsonb[], $9::jsonb[],
                                   $10::timestamptz[], $11::text[], $12::jsonb[], $13::text[], $14::timestamptz[],
                                   $15::timestamptz[], $16::jsonb[])
                       as q (id, kind, subject, text, schema, default_value, expires_at, state, answer, answered_by,
                             created_at, closed_at, approval)
                 where k.tenant_id = $2 and k.agentable_id = $1",
                self.agentable.0,
                self.tenant.0,
                self.run.0,
                ids,
                &kinds as &[&str],
                &subjects as &[Option<&str>],
                &texts as &[&str],
                &schemas as &[Option<Json<&Value>>],
                &defaults as &[Option<Json<&Value>>],
                &expire as &[Option<DateTime<Utc>>],
                &states as &[&str],
                &answers as &[Option<Json<&Value>>],
                &by as &[Option<&str>],
                &created,
                &closed,
                &approvals as &[Option<Json<&ExportedApproval>>]
            )
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    }
}
