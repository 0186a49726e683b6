//! Runs: one orchestrator execution that holds an agentable's lock, over crashes and hand-overs.

use serde::{Deserialize, Serialize};

/// How a run stands or ended. Each stop rule has a status of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; no worker has taken it yet.
    Queued,
    /// A worker holds the lock.
    Running,
    /// Waits for its next attempt.
    Retrying,
    /// The model answered without asking for tools.
    Completed,
    /// A conversational agent has sent its message.
    MessageSent,
    /// 20 model calls were not enough.
    MaxIterations,
    /// The same tool five times in a row.
    SameTool,
    /// Ten minutes were not enough.
    MaxDuration,
    /// A task's history reached its cap.
    HistoryFull,
    /// The model's answer was cut at its limit.
    MaxTokens,
    /// Somebody cancelled it.
    Cancelled,
    /// The model could not be reached, or what it sent could not be used.
    Failed,
    /// It took its worker down three times.
    DeadLettered,
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Queued,
        Self::Running,
        Self::Retrying,
        Self::Completed,
        Self::MessageSent,
        Self::MaxIterations,
        Self::SameTool,
        Self::MaxDuration,
        Self::HistoryFull,
        Self::MaxTokens,
        Self::Cancelled,
        Self::Failed,
        Self::DeadLettered,
    ];

    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Completed => "completed",
            Self::MessageSent => "message_sent",
            Self::MaxIterations => "max_iterations",
            Self::SameTool => "same_tool",
            Self::MaxDuration => "max_duration",
            Self::HistoryFull => "history_full",
            Self::MaxTokens => "max_tokens",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::DeadLettered => "dead_lettered",
        }
    }

    /// Parses the name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
    }

    /// Whether the run is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Retrying)
    }

    /// Whether the messages it read count as answered.
    #[must_use]
    pub fn answers(self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::MessageSent
                | Self::MaxIterations
                | Self::SameTool
                | Self::MaxDuration
                | Self::HistoryFull
                | Self::MaxTokens
        )
    }

    /// What cut a run off that ended with this status and, if it has one, this error (of a cancelled run: who asked).
    /// `None` of a run that is open, or whose agent was done. The rule of `houston.stop_reason` in the database.
    #[must_use]
    pub fn stop_reason(self, code: Option<&str>) -> Option<String> {
        match (self, code) {
            (status, _) if !status.is_terminal() => None,
            (Self::Cancelled, code) => Some(code.unwrap_or("user").to_owned()),
            (_, Some(code)) => Some(code.to_lowercase()),
            (Self::Completed | Self::MessageSent, None) => None,
            (status, None) => Some(status.as_str().to_owned()),
        }
    }

    /// What the user is told when the run ends this way and nothing was sent; `None` where silence is right.
    #[must_use]
    pub fn notice(self) -> Option<&'static str> {
        match self {
            Self::MaxIterations => {
                Some("I stopped: this took more steps than one run may take. Ask me to go on.")
            }
            Self::SameTool => Some("I stopped: I kept using the same tool without getting further."),
            Self::MaxDuration => Some("I stopped: this took longer than one run may take. Ask me to go on."),
            Self::HistoryFull => Some("This task stopped: its history reached its limit."),
            Self::DeadLettered => Some(
                "This message could not be processed: it stopped its worker three times. It will not be tried again.",
            ),
            _ => None,
        }
    }
}
