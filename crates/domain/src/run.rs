//! Runs: one execution for an agentable, across crashes and hand-overs.

use crate::names::names;

names! {
    /// The status of a run. Each stop rule has its own.
    #[derive(Hash)]
    pub enum RunStatus {
        /// Accepted; no worker has claimed it yet.
        Queued = "queued",
        /// A worker holds its lock.
        Running = "running",
        /// It waits for its next attempt.
        Retrying = "retrying",
        /// It waits for an answer, a message or a time, and no worker holds it.
        Waiting = "waiting",
        /// The model answered without asking for tools.
        Completed = "completed",
        /// A conversational agent sent its message.
        MessageSent = "message_sent",
        /// It reached `limits.max_iterations` (20 by default).
        MaxIterations = "max_iterations",
        /// It used the same tool `limits.max_same_tool` times in a row (5 by default).
        SameTool = "same_tool",
        /// It reached `limits.max_duration_s` (10 minutes by default).
        MaxDuration = "max_duration",
        /// The history reached `limits.max_history_entries`, which tasks set.
        HistoryFull = "history_full",
        /// The model's answer was cut at `limits.max_output_tokens`.
        MaxTokens = "max_tokens",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// The model could not be reached, or its answer could not be used.
        Failed = "failed",
        /// Its workers died repeatedly, so it was given up.
        DeadLettered = "dead_lettered",
    }
}

impl RunStatus {
    /// Whether the run has ended.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Retrying | Self::Waiting)
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

    /// Why a run that ended with this status was cut off; `code` is its error code (for a cancelled run: who
    /// requested it). `None` for an open run, or one whose agent had finished.
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

    /// As [`stop_reason`](Self::stop_reason), from what is stored about a run. `cancelled_by`: who or what requested
    /// its cancellation; `None`: the user.
    #[must_use]
    pub fn stopped_by(self, error_code: Option<&str>, cancelled_by: Option<&str>) -> Option<String> {
        self.stop_reason(if self == Self::Cancelled { cancelled_by } else { error_code })
    }

    /// The message to the user when the run ends with this status without having sent one; `None` for no
    /// message.
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
