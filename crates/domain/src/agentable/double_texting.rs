//! What a message does to an open run.

use serde::{Deserialize, Serialize};

/// What a message does to a run that is open when the message arrives: double texting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubleTexting {
    /// The run reads it at its next step.
    #[default]
    Enqueue,
    /// The run is cancelled, and the message starts the next one. What the run did remains.
    Interrupt,
    /// The message is refused, and nothing is stored.
    Reject,
    /// Like `Interrupt`, and the run is removed from the history. External effects of its tools remain.
    Rollback,
}

impl DoubleTexting {
    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Interrupt => "interrupt",
            Self::Reject => "reject",
            Self::Rollback => "rollback",
        }
    }

    /// Whether it cancels the open run.
    #[must_use]
    pub fn cancels(self) -> bool {
        matches!(self, Self::Interrupt | Self::Rollback)
    }
}
