//! [`PausedCall`]: a tool call that has begun and goes on later.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::QuestionId;

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
