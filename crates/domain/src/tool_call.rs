//! Tool definitions, tool calls, and their responses.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::id::{AgentableId, QuestionId, RunId};
use crate::inner_call::inner_call;
use crate::storable::storable;

names! {
    /// Whether a tool call may be repeated after a crash left its outcome unknown.
    #[derive(Hash, Default)]
    pub enum EffectClass {
        /// It changes nothing: it is repeated.
        Read = "read",
        /// It is repeated with the same idempotency key.
        Idempotent = "idempotent",
        /// The tool checks by idempotency key whether it was executed.
        Checkable = "checkable",
        /// It acts outside Houston: it is never repeated. The default.
        #[default]
        Effect = "effect",
    }
}

/// A tool as it is offered to the model, with its effect class and timeout.
///
/// ```json
/// {"name": "create_note", "description": "Store a note.", "effect": "read", "timeout": {"secs": 120, "nanos": 0},
///  "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name: `snake_case`, unique in the registry.
    pub name: String,
    /// When and how to use it, for the model.
    pub description: String,
    /// JSON Schema of its arguments, which must be an object. All copies of the definition share it.
    pub input_schema: Arc<Value>,
    /// Whether a call may be repeated after a crash.
    #[serde(default)]
    pub effect: EffectClass,
    /// Maximum duration of one call.
    #[serde(default = "ToolDefinition::default_timeout")]
    pub timeout: Duration,
}

impl ToolDefinition {
    /// A tool whose calls may take two minutes.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<Arc<Value>>,
        effect: EffectClass,
    ) -> Self {
        let (name, description, input_schema) = (name.into(), description.into(), input_schema.into());
        Self { name, description, input_schema, effect, timeout: Self::default_timeout() }
    }

    /// Two minutes; tools that take longer set their own timeout.
    pub fn default_timeout() -> Duration {
        Duration::from_secs(120)
    }
}

/// A tool call that the model asked for.
///
/// ```json
/// {"id": "call_1", "name": "create_note", "input": {"title": "Hotels"}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call, unique within the run.
    pub id: String,
    /// The name of the tool as the model gave it; the tool may not exist.
    pub name: String,
    /// The arguments as far as they could be parsed: always a JSON object.
    pub input: Value,
    /// Set when the arguments were not a JSON object: what was sent instead, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

impl ToolCall {
    /// The call that a block of the history asks for: of a tool that is called through another one, the inner call. The id
    /// is that of the block.
    pub fn of_block(id: &str, name: &str, input: &Value, malformed: Option<String>) -> Self {
        let (name, input) = inner_call(name, input);
        Self { id: id.to_owned(), name: name.to_owned(), input: input.into_owned(), malformed }
    }

    /// The idempotency key of the call: SHA-256 of agentable, run and call id, as 64 hex digits.
    pub fn idempotency_key(&self, agentable: AgentableId, run: RunId) -> String {
        let mut hash = Sha256::new();
        hash.update(agentable.0.as_bytes());
        hash.update(run.0.as_bytes());
        hash.update(self.id.as_bytes());
        hex::encode(hash.finalize())
    }
}

names! {
    /// Why a tool call failed, for the model and for statistics.
    #[derive(Hash)]
    pub enum ToolErrorCode {
        /// The arguments are invalid: the model can correct them.
        ValidationError = "VALIDATION_ERROR",
        /// Reading or writing failed.
        IoError = "IO_ERROR",
        /// The tool is not configured.
        ConfigError = "CONFIG_ERROR",
        /// The agent is not allowed to do this.
        PermissionDenied = "PERMISSION_DENIED",
        /// Too many calls.
        RateLimited = "RATE_LIMITED",
        /// The requested item does not exist.
        NotFound = "NOT_FOUND",
        /// The model must decide something first.
        LlmAssistRequired = "LLM_ASSIST_REQUIRED",
        /// It took longer than its timeout.
        Timeout = "TIMEOUT",
        /// Any other failure, including "outcome unknown" after a crash.
        Unknown = "UNKNOWN",
    }
}

/// The response to a call: every call gets exactly one.
///
/// ```json
/// {"observation": "saved as note_0192a3b4c5d67e8f9a0b1c2d3e4f5061"}
/// {"error": "`title` is missing", "code": "VALIDATION_ERROR"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolResponse {
    /// The call succeeded.
    Success {
        /// What the model reads.
        observation: String,
    },
    /// The call failed.
    Failure {
        /// What the model reads: what is wrong, and what to do.
        error: String,
        /// The kind of failure.
        code: ToolErrorCode,
    },
}

impl ToolResponse {
    /// A successful response; the model reads `observation`.
    pub fn success(observation: impl Into<String>) -> Self {
        Self::Success { observation: observation.into() }
    }

    /// A failed response; the model reads `error`.
    pub fn failure(code: ToolErrorCode, error: impl Into<String>) -> Self {
        Self::Failure { error: error.into(), code }
    }

    /// The response for a call of class `effect` that was interrupted by a crash.
    pub fn outcome_unknown() -> Self {
        Self::failure(
            ToolErrorCode::Unknown,
            "outcome unknown: the worker stopped while this call ran. It may have happened, or may still \
             happen. Verify before you try again.",
        )
    }

    /// This response without U+0000 (see [`storable`]) and cut to `max_bytes` bytes, with a note about the cut. A
    /// longer one would fill the history, the events and the next request to the model.
    #[must_use]
    pub fn cut(mut self, max_bytes: usize) -> Self {
        let text = self.text_mut();
        storable(text);
        if text.len() > max_bytes {
            let note = format!("\n[cut: it has {} bytes, {max_bytes} are kept]", text.len());
            text.truncate(text.floor_char_boundary(max_bytes.saturating_sub(note.len())));
            text.push_str(&note);
        }
        self
    }

    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    /// Why the call failed; `None` if it succeeded.
    pub fn code(&self) -> Option<ToolErrorCode> {
        match self {
            Self::Success { .. } => None,
            Self::Failure { code, .. } => Some(*code),
        }
    }

    /// What the model reads.
    pub fn text(&self) -> &str {
        match self {
            Self::Success { observation } => observation,
            Self::Failure { error, .. } => error,
        }
    }

    /// This response with its text replaced by `change(text)`.
    #[must_use]
    pub fn map_text(mut self, change: impl FnOnce(&str) -> String) -> Self {
        let text = self.text_mut();
        *text = change(text);
        self
    }

    fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Success { observation } => observation,
            Self::Failure { error, .. } => error,
        }
    }
}

/// The most bytes of what a tool may keep for a paused call.
pub const MAX_STATE_BYTES: usize = 128 * 1024;

/// A tool call that has begun and goes on later: when a person has answered a question, or when a time has come.
///
/// ```json
/// {"tool": "mail__send", "state": {"task": "t-1"}, "until": "2026-11-25T09:00:00Z"}
/// {"tool": "mail__send", "state": {"request_state": "…"}, "question": "question_0192a3b4c5d67e8f9a0b1c2d3e4f5061"}
/// ```
///
/// While it is stored, the call is `checkable`: going on by time only asks how far it is, so it may be repeated. Going on with
/// an answer is another action: the pause is removed before that, and from then on the effect class of the tool decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PausedCall {
    /// The name of its tool.
    pub tool: String,
    /// What its tool needs to go on; nothing else reads it. At most [`MAX_STATE_BYTES`] bytes.
    pub state: Value,
    /// The question whose answer it waits for; `None`: it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionId>,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_key_differs_only_between_runs() {
        let call = ToolCall { id: "c1".into(), name: "pay".into(), input: Value::Null, malformed: None };
        let (agentable, run) = (AgentableId(uuid::Uuid::from_u128(1)), RunId(uuid::Uuid::from_u128(2)));
        let key = call.idempotency_key(agentable, run);
        assert_eq!(key.len(), 64);
        assert_eq!(key, call.clone().idempotency_key(agentable, run));
        assert_ne!(key, call.idempotency_key(agentable, RunId(uuid::Uuid::from_u128(3))));
    }

    #[test]
    fn long_responses_are_cut_between_characters_with_a_note() {
        let long = ToolResponse::success("ä".repeat(1000)).cut(101);
        assert!(long.is_success() && long.text().len() <= 101, "{}", long.text());
        assert!(long.text().ends_with("[cut: it has 2000 bytes, 101 are kept]"), "{}", long.text());
        assert_eq!(long.clone().cut(101), long, "cutting twice changes nothing");
        assert_eq!(ToolResponse::success("short").cut(101).text(), "short");
    }

    #[test]
    fn default_effect_class_is_effect() {
        let definition: ToolDefinition =
            serde_json::from_value(serde_json::json!({"name": "x", "description": "", "input_schema": {}}))
                .unwrap();
        assert_eq!(definition.effect, EffectClass::Effect);
    }
}
