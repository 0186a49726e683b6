//! Questions as rows of their table.

use chrono::{DateTime, Utc};
use houston_domain::id::QuestionId;
use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
use serde_json::Value;
use uuid::Uuid;

/// A row of the table, without its owners.
pub(crate) struct Row {
    pub(crate) id: Uuid,
    pub(crate) kind: String,
    pub(crate) subject: Option<String>,
    pub(crate) text: String,
    pub(crate) schema: Option<Value>,
    pub(crate) default_value: Option<Value>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) state: String,
    pub(crate) answer: Option<Value>,
    pub(crate) answered_by: Option<String>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) closed_at: Option<DateTime<Utc>>,
    /// As JSON.
    pub(crate) approval: Option<Value>,
}

/// The [`Row`] of a query's row that has its columns, among others.
macro_rules! question_row {
    ($r:ident) => {
        $crate::question::Row {
            id: $r.id,
            kind: $r.kind,
            subject: $r.subject,
            text: $r.text,
            schema: $r.schema,
            default_value: $r.default_value,
            expires_at: $r.expires_at,
            state: $r.state,
            answer: $r.answer,
            answered_by: $r.answered_by,
            created_at: $r.created_at,
            closed_at: $r.closed_at,
            approval: $r.approval,
        }
    };
}
pub(crate) use question_row;

impl Row {
    pub(crate) fn into_question(self) -> Question {
        Question {
            asked: NewQuestion {
                id: QuestionId(self.id),
                kind: QuestionKind::from_name(&self.kind).unwrap_or(QuestionKind::Input),
                subject: self.subject,
                text: self.text,
                schema: self.schema,
                default_value: self.default_value,
                expires_at: self.expires_at,
                approval: self.approval.and_then(|approval| serde_json::from_value(approval).ok()),
            },
            state: QuestionState::from_name(&self.state).unwrap_or(QuestionState::Cancelled),
            answer: self.answer,
            answered_by: self.answered_by,
            created_at: self.created_at,
            closed_at: self.closed_at,
        }
    }
}
