//! Questions of a conversation document.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::question::{QuestionKind, QuestionState};

/// A question that a run asked and that is closed: with its answer, or with what closed it instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedQuestion {
    /// What it was for.
    pub kind: QuestionKind,
    /// What it was about, such as the id of a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The text for people.
    pub text: String,
    /// The JSON Schema of an answer; `None`: any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The answer that held if none came in time.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// When it expired, or would have expired; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// What closed it; never `open`.
    pub state: QuestionState,
    /// The answer, if it was answered.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// When it was asked.
    pub created_at: DateTime<Utc>,
    /// When it was closed.
    pub closed_at: DateTime<Utc>,
    /// The tool call that an approval was about; `subject` is its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ExportedApproval>,
}

/// The tool call that an approval was about. Its cell is that with its id in the thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedApproval {
    /// The tool.
    pub tool: String,
    /// Its arguments, as the model gave them.
    pub input: Value,
    /// Why a person was asked, as a clause.
    pub why: String,
}

/// Deserializes a field that is present: `null` is a value like any other, for instance an answer.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
