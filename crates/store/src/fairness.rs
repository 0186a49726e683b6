//! What one user may take from the others, and what one reading may take at once.

use serde::{Deserialize, Serialize};

/// The shares of a user: `[fairness]` of `jobs/orchestrator.toml`. All processes should have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fairness {
    /// Runs of one user that are held at once, over all workers.
    pub max_running: u16,
    /// Messages of one user that wait unread, over all their agentables.
    pub max_pending: u32,
    /// Messages one reading takes: they become one entry of the history.
    pub read_messages: u16,
    /// Bytes of text one reading takes; a message that is longer is read alone.
    pub read_bytes: u32,
}

impl Default for Fairness {
    fn default() -> Self {
        Self { max_running: 10, max_pending: 10_000, read_messages: 100, read_bytes: 256 * 1024 }
    }
}

impl Fairness {
    pub(crate) fn running(self) -> i32 {
        i32::from(self.max_running)
    }

    pub(crate) fn pending(self) -> i32 {
        i32::try_from(self.max_pending).unwrap_or(i32::MAX)
    }

    pub(crate) fn messages(self) -> i32 {
        i32::from(self.read_messages)
    }

    pub(crate) fn bytes(self) -> i32 {
        i32::try_from(self.read_bytes).unwrap_or(i32::MAX)
    }
}
