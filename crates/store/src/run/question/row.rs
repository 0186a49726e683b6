//! Questions as rows of their table.

use chrono::{DateTime, Utc};
use houston_domain::id::QuestionId;
use houston_domain::question::approval::{Approval, answer_schema, arguments};
use houston_domain::question::{NewQuestion, Question, QuestionKind, QuestionState};
use serde::Serialize;
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
    /// As JSON: a [`StoredApproval`].
    pub(crate) approval: Option<Value>,
}

/// An approval as it is stored. Of the schema of its answer only that of the tool's arguments is: the rest is the same for
/// all, and most of a row.
#[derive(Debug, Serialize)]
pub(crate) struct StoredApproval<'a> {
    #[serde(flatten)]
    approval: &'a Approval,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Value>,
}

impl<'a> StoredApproval<'a> {
    /// The approval of a question, and the schema of the question if that does not follow from it.
    pub(crate) fn of(question: &'a NewQuestion) -> (Option<Self>, Option<&'a Value>) {
        let (approval, schema) = (question.approval.as_deref(), question.schema.as_ref());
        let follows = |arguments: &&Value| {
            approval.is_some_and(|approval| Some(&answer_schema(arguments, approval.lasting)) == schema)
        };
        let arguments = schema.and_then(arguments).filter(follows);
        let stored = approval.map(|approval| Self { approval, arguments });
        (stored, if arguments.is_none() { schema } else { None })
    }

    /// The schema of a question with this approval.
    pub(crate) fn schema(approval: Option<&Value>) -> Option<Value> {
        let approval = approval?;
        let lasting = approval.get("lasting").and_then(Value::as_bool).unwrap_or_default();
        Some(answer_schema(approval.get("arguments")?, lasting))
    }
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
                schema: self.schema.or_else(|| StoredApproval::schema(self.approval.as_ref())),
                default_value: self.default_value,
                expires_at: self.expires_at,
                approval: self.approval.and_then(|approval| serde_json::from_value(approval).ok()),
                message_id: None,
            },
            state: QuestionState::from_name(&self.state).unwrap_or(QuestionState::Cancelled),
            answer: self.answer,
            answered_by: self.answered_by,
            created_at: self.created_at,
            closed_at: self.closed_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::id::MessageId;
    use serde_json::json;

    use super::*;

    fn question(schema: Value, lasting: bool) -> NewQuestion {
        let approval = Approval {
            tool: "delete_note".into(),
            input: json!({"id": 1}),
            why: "it deletes something for good".into(),
            message_id: MessageId(Uuid::nil()),
            preview: None,
            lasting,
            pin: None,
        };
        NewQuestion {
            id: QuestionId(Uuid::nil()),
            kind: QuestionKind::Approval,
            subject: None,
            text: "Delete note?".into(),
            schema: Some(schema),
            default_value: None,
            expires_at: None,
            approval: Some(Box::new(approval)),
            message_id: None,
        }
    }

    #[test]
    fn schema_of_an_approval_follows_from_that_of_the_arguments() {
        let arguments = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
        for lasting in [true, false] {
            let question = question(answer_schema(&arguments, lasting), lasting);
            let (stored, schema) = StoredApproval::of(&question);
            assert_eq!(schema, None);
            let stored = serde_json::to_value(stored.unwrap()).unwrap();
            assert_eq!(StoredApproval::schema(Some(&stored)), question.schema);
            assert_eq!(
                serde_json::from_value::<Approval>(stored).unwrap(),
                **question.approval.as_ref().unwrap()
            );
        }
    }

    #[test]
    fn another_schema_is_stored_whole() {
        for other in [json!({"type": "boolean"}), answer_schema(&json!({}), true)] {
            let question = question(other.clone(), false);
            let (stored, schema) = StoredApproval::of(&question);
            assert_eq!(schema, Some(&other));
            assert_eq!(StoredApproval::schema(Some(&serde_json::to_value(stored.unwrap()).unwrap())), None);
        }
    }
}
