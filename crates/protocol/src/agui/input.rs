//! What an AG-UI client posts to run an agent.

use houston_domain::id::QuestionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema;

/// The request of an AG-UI client. Houston stores the thread itself: of `messages` only a new last one of the user is read.
/// `threadId`, `runId`, `state`, `tools`, `context` and `forwardedProps` are ignored.
///
/// ```json
/// {"threadId": "goal_0190…", "runId": "1", "messages": [{"id": "m1", "role": "user", "content": "Delete my notes"}]}
/// {"threadId": "goal_0190…", "runId": "2", "messages": [],
///  "resume": [{"interruptId": "question_0190…", "status": "resolved", "payload": {"decision": "approve"}}]}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunAgentInput {
    #[serde(default)]
    pub messages: Vec<InputMessage>,
    /// Answers to the interrupts of the thread.
    #[serde(default)]
    pub resume: Vec<ResumeEntry>,
}

/// A message as the client has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputMessage {
    pub id: String,
    /// `user`, `assistant`, `tool`, …
    pub role: String,
    /// A text, or parts: `[{"type": "text", "text": "…"}]`.
    #[serde(default)]
    #[schema(value_type = schema::AnyJson)]
    pub content: Value,
}

/// An answer to one interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeEntry {
    #[schema(value_type = schema::QuestionId)]
    pub interrupt_id: QuestionId,
    pub status: ResumeStatus,
    /// The answer, if `resolved`: a JSON value that matches the interrupt's `responseSchema`.
    #[serde(default)]
    #[schema(value_type = schema::AnyJson)]
    pub payload: Value,
}

/// Whether the person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    /// With `payload`.
    Resolved,
    /// The person does not want what was asked about.
    Cancelled,
}

impl InputMessage {
    /// The text; `None` if there are other parts than text.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match &self.content {
            Value::String(text) => Some(text.clone()),
            Value::Array(parts) => parts
                .iter()
                .map(|part| Some(part).filter(|part| part["type"] == "text")?.get("text")?.as_str())
                .collect(),
            _ => None,
        }
    }
}
