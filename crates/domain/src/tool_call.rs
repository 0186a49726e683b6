//! What a tool is to the model, what a call of it is, and what it may answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::storable::storable;

use crate::id::{AgentableId, RunId};

/// What may be done with a call whose outcome a crash left unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing: run again.
    Read,
    /// Run again with the same key.
    Idempotent,
    /// Ask the outside, by key, whether it happened.
    Checkable,
    /// Acts on the world: never again. What is undeclared is this.
    #[default]
    Effect,
}

impl EffectClass {
    /// The name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Checkable => "checkable",
            Self::Effect => "effect",
        }
    }
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// `snake_case`, unique in the registry.
    pub name: String,
    /// When and how to use it, for the model.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub input_schema: Value,
    /// What a crash allows.
    #[serde(default)]
    pub effect: EffectClass,
    /// How long one call may take.
    #[serde(default = "ToolDefinition::default_timeout")]
    pub timeout: Duration,
}

impl ToolDefinition {
    /// Two minutes: longer tools say so themselves.
    #[must_use]
    pub fn default_timeout() -> Duration {
        Duration::from_secs(120)
    }
}

/// One call the model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the run.
    pub id: String,
    /// The tool's name as the model gave it.
    pub name: String,
    /// The arguments, as far as they could be read: always a JSON object.
    pub input: Value,
    /// Set when the arguments were no JSON object: what was sent instead, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

impl ToolCall {
    /// The key a repeated call carries to the outside: SHA-256 of agentable, run and call id, in hex.
    #[must_use]
    pub fn idempotency_key(&self, agentable: AgentableId, run: RunId) -> String {
        let mut hash = Sha256::new();
        hash.update(agentable.0.as_bytes());
        hash.update(run.0.as_bytes());
        hash.update(self.id.as_bytes());
        hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            use std::fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// Why a tool failed, for the model and for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorCode {
    /// The arguments are wrong: the model can mend them.
    ValidationError,
    /// Reading or writing failed.
    IoError,
    /// The tool is not set up.
    ConfigError,
    /// Not allowed here.
    PermissionDenied,
    /// Too often.
    RateLimited,
    /// What was asked for does not exist.
    NotFound,
    /// The tool wants the model to decide something first.
    LlmAssistRequired,
    /// It took longer than it may.
    Timeout,
    /// Anything else, including "outcome unknown" after a crash.
    Unknown,
}

/// What a call answered; one for each call, whatever happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolResponse {
    /// It worked.
    Success {
        /// What the model reads.
        observation: String,
    },
    /// It did not.
    Failure {
        /// What the model reads: what is wrong and what to do.
        error: String,
        /// Which kind of failure.
        code: ToolErrorCode,
    },
}

impl ToolResponse {
    /// A success.
    #[must_use]
    pub fn success(observation: impl Into<String>) -> Self {
        Self::Success { observation: observation.into() }
    }

    /// A failure.
    #[must_use]
    pub fn failure(code: ToolErrorCode, error: impl Into<String>) -> Self {
        Self::Failure { error: error.into(), code }
    }

    /// The result for a call of class `effect` that a crash cut off.
    #[must_use]
    pub fn outcome_unknown() -> Self {
        Self::failure(
            ToolErrorCode::Unknown,
            "outcome unknown: the worker stopped while this call ran. It may have happened, or may still \
             happen. Verify before you try again.",
        )
    }

    /// The same as it can be kept: without U+0000 (see [`storable`]), and cut to `most` bytes, which says so; longer
    /// ones would fill the history, the events and the next request to the model.
    #[must_use]
    pub fn cut(mut self, most: usize) -> Self {
        let text = self.text_mut();
        storable(text);
        if text.len() > most {
            let note = format!("\n[cut: it has {} bytes, {most} are kept]", text.len());
            let mut end = most.saturating_sub(note.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(&note);
        }
        self
    }

    /// Whether it worked.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    /// What the model reads.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Success { observation } => observation,
            Self::Failure { error, .. } => error,
        }
    }

    /// The same response with a text that `change` makes of its own.
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

/// Rows in Houston's own tables that a tool writes. The store writes them in the fenced transaction of the
/// step, together with the result and its events: exactly once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A message of the agent to its user.
    SendMessage {
        /// Markdown, not empty.
        content: String,
    },
    /// A note of the agentable.
    CreateNote {
        /// One line.
        title: String,
        /// Markdown.
        content: String,
    },
    /// Remembers something.
    AddLearning {
        /// One sentence.
        content: String,
    },
    /// Corrects something remembered.
    UpdateLearning {
        /// Which one.
        id: crate::id::LearningId,
        /// The new sentence.
        content: String,
    },
    /// Forgets something.
    RemoveLearning {
        /// Which one.
        id: crate::id::LearningId,
    },
    /// Reads or changes what agents know.
    Knowledge(crate::knowledge::Knowledge),
    /// Searches closed sessions.
    SessionHistory(crate::session::HistoryQuery),
    /// Reads on in a long result.
    ReadResult {
        /// Which one.
        id: crate::id::ResultId,
        /// What of it.
        reading: crate::tool_result::Reading,
        /// Bytes of what is read, about.
        most: usize,
    },
    /// Creates a task, which begins at once.
    CreateTask(crate::task::WantedTask),
    /// Sets a time at which the agent is woken.
    ScheduleCheckIn(crate::check_in::WantedCheckIn),
    /// Reads those that are set.
    ListCheckIns,
    /// Takes one back.
    CancelCheckIn {
        /// Which one.
        id: crate::id::CheckInId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_repeated_call_is_the_same_and_another_runs_is_not() {
        let call = ToolCall { id: "c1".into(), name: "pay".into(), input: Value::Null, malformed: None };
        let (agentable, run) = (AgentableId(uuid::Uuid::from_u128(1)), RunId(uuid::Uuid::from_u128(2)));
        let key = call.idempotency_key(agentable, run);
        assert_eq!(key.len(), 64);
        assert_eq!(key, call.clone().idempotency_key(agentable, run));
        assert_ne!(key, call.idempotency_key(agentable, RunId(uuid::Uuid::from_u128(3))));
    }

    #[test]
    fn a_long_response_is_cut_between_two_characters_and_says_so() {
        let long = ToolResponse::success("ä".repeat(1000)).cut(101);
        assert!(long.is_success() && long.text().len() <= 101, "{}", long.text());
        assert!(long.text().ends_with("[cut: it has 2000 bytes, 101 are kept]"), "{}", long.text());
        assert_eq!(long.clone().cut(101), long, "once is enough");
        assert_eq!(ToolResponse::success("short").cut(101).text(), "short");
    }

    #[test]
    fn what_is_undeclared_acts_on_the_world() {
        let definition: ToolDefinition =
            serde_json::from_value(serde_json::json!({"name": "x", "description": "", "input_schema": {}}))
                .unwrap();
        assert_eq!(definition.effect, EffectClass::Effect);
    }
}
