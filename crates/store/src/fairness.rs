//! Limits per user, so that one user's work does not delay the others', and limits per read of unread messages.

use houston_domain::unread::ReadLimits;
use serde::{Deserialize, Serialize};

/// The limits: section `[fairness]` of `jobs/orchestrator.toml`. All processes should use the same.
///
/// ```toml
/// [fairness]
/// max_running = 10
/// max_pending = 10000
/// read_messages = 100
/// read_bytes = 262144
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fairness {
    /// Maximum number of runs of one user that are held at once, over all workers.
    pub max_running: u16,
    /// Maximum number of unread messages of one user, over all their agentables; more are refused.
    pub max_pending: u32,
    /// Maximum number of messages read at once; they become one entry of the history.
    pub read_messages: u16,
    /// Maximum bytes of text read at once; a longer message is read alone.
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

    pub(crate) fn read_limits(self) -> ReadLimits {
        ReadLimits {
            messages: usize::from(self.read_messages),
            bytes: usize::try_from(self.read_bytes).unwrap_or(usize::MAX),
        }
    }
}
