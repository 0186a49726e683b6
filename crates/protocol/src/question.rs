//! Questions that runs ask people.

use houston_domain::id::{MessageId, QuestionId, RunId, UserId};
use houston_domain::question::approval::Approval;
use houston_domain::question::{NewQuestion, QuestionKind, QuestionState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::owner::Owner;
use crate::time::Time;

/// A question. It is closed once: by an answer, by its time, by its run, or by the end of its run.
///
/// ```json
/// {"id": "question_0190…", "goal_id": "goal_0190…", "user_id": "user_0190…", "run_id": "run_0190…", "kind": "approval",
///  "subject": "call_1", "text": "May I delete all notes?", "schema": {"type": "boolean"}, "default_value": false,
///  "expires_at": "2026-11-23T09:00:00.000Z", "state": "answered", "answer": true, "answered_by": "Ann",
///  "created_at": "2026-11-22T09:00:00.000Z", "closed_at": "2026-11-22T09:05:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuestionResponse {
    pub id: QuestionId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
    /// The user the agent works for.
    pub user_id: UserId,
    /// The run that asks.
    pub run_id: RunId,
    pub kind: QuestionKind,
    /// What it is about, such as the id of a tool call.
    pub subject: Option<String>,
    pub text: String,
    /// The JSON Schema of an answer; null: any JSON value.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub schema: Option<Value>,
    /// The answer that holds if no answer comes in time.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub default_value: Option<Value>,
    pub expires_at: Option<Time>,
    pub state: QuestionState,
    /// Null unless it was answered.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub answer: Option<Value>,
    /// Who answered, as the request said.
    pub answered_by: Option<String>,
    pub created_at: Time,
    pub closed_at: Option<Time>,
    /// For questions of kind `approval` about a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<CallToApprove>,
}

impl From<QuestionResponse> for NewQuestion {
    fn from(question: QuestionResponse) -> Self {
        Self {
            id: question.id,
            kind: question.kind,
            subject: question.subject,
            text: question.text,
            schema: question.schema,
            default_value: question.default_value,
            expires_at: question.expires_at.map(|at| at.0),
            approval: question.approval.map(|call| Box::new(call.into())),
            message_id: None,
        }
    }
}

/// The tool call that an approval is about.
///
/// ```json
/// {"tool": "delete_note", "input": {"note_id": "note_0190…"}, "why": "it deletes something for good", "message_id": "msg_0190…"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallToApprove {
    pub tool: String,
    /// The arguments as the model gave them.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub input: Value,
    /// Why a person is asked.
    pub why: String,
    /// The thread message that shows the call. A step of a plan has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = MessageId, required = false))]
    pub message_id: Option<MessageId>,
    /// What it would change, as it was when the question was asked: a unified diff of a file, of at most about 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Whether the answer `approve` may have `remember`: a lasting yes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
}

impl From<Approval> for CallToApprove {
    fn from(Approval { tool, input, why, message_id, preview, lasting, pin: _ }: Approval) -> Self {
        Self { tool, input, why, message_id, preview, lasting }
    }
}

impl From<CallToApprove> for Approval {
    fn from(CallToApprove { tool, input, why, message_id, preview, lasting }: CallToApprove) -> Self {
        Self { tool, input, why, message_id, preview, lasting, pin: None }
    }
}

/// An answer: `{"answer": true, "answered_by": "Ann"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    /// A JSON value that matches the question's schema.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub answer: Value,
    /// Who answers, at most 200 characters; for people who read it later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
}

/// A request for a link: `{"answered_by": "Ann"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateApprovalLink {
    /// Whom the link is made for, at most 200 characters; the answer will have this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
}

/// A link with which a person decides a question without an API key.
///
/// ```json
/// {"path": "/approve/question_0190…/9f1c…", "answered_by": "Ann", "expires_at": "2026-11-23T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalLink {
    /// The path of the page. Put the address at which people reach this server before it.
    pub path: String,
    pub answered_by: Option<String>,
    /// When the question expires, and the link with it.
    pub expires_at: Option<Time>,
}
