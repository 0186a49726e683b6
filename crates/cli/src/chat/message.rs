//! What the API answers, as far as a conversation needs it.

use serde::Deserialize;
use serde_json::Value;

/// A thread message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Message {
    pub(crate) source: String,
    pub(crate) message_type: String,
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) metadata: Value,
}

/// A list, newest first.
#[derive(Debug, Deserialize)]
pub(crate) struct Messages {
    pub(crate) data: Vec<Message>,
}

/// A message that was accepted.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) id: String,
    pub(crate) run_id: String,
    /// The stream of its run, from the first event.
    pub(crate) events_url: String,
}

/// What became of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Fate {
    pub(crate) status: Option<String>,
}

/// A goal, or another agentable.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Goal {
    pub(crate) id: String,
    pub(crate) user_id: String,
    pub(crate) title: String,
    /// Its open run, or the latest one.
    pub(crate) run_id: Option<String>,
}

/// A run.
#[derive(Debug, Deserialize)]
pub(crate) struct Run {
    pub(crate) status: String,
}

impl Run {
    /// Whether an answer is still to come.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status.as_str(), "queued" | "running" | "retrying")
    }
}

/// A user.
#[derive(Debug, Deserialize)]
pub(crate) struct User {
    pub(crate) id: String,
}

/// Why a request was refused (RFC 9457).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) code: Option<String>,
    pub(crate) detail: Option<String>,
    pub(crate) title: Option<String>,
}
