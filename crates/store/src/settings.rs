//! Settings of `jobs/` that the store is opened with: the limits per user and which sessions are closed. Some are written to
//! the database for functions that no caller passes them: reports at the end of a task and the files that it moves, the
//! extract of a closed session, and the limits for messages that an application posts by SQL alone.

use houston_domain::session::SessionArchive;
use houston_domain::setting::positive;
use houston_domain::unread::ReadLimits;

houston_domain::settings! {
    /// Limits per user, so that one user's work does not delay the others', and limits per read of unread messages: section
    /// `[fairness]` of `jobs/orchestrator.toml`. All processes should use the same.
    ///
    /// ```toml
    /// [fairness]
    /// max_running = 10
    /// max_pending = 10000
    /// read_messages = 100
    /// read_bytes = 262144
    /// ```
    pub struct Fairness {
        /// Maximum number of runs of one user that are held at once, over all workers.
        pub max_running: u16 = 10, "positive";
        /// Maximum number of unread messages of one user, over all their agentables; more are refused.
        pub max_pending: u32 = 10_000, "positive";
        /// Maximum number of messages read at once; they become one entry of the history.
        pub read_messages: u16 = 100, "positive";
        /// Maximum bytes of text read at once; a longer message is read alone.
        pub read_bytes: u32 = 256 * 1024, "positive";
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

/// Which sessions are closed, and when. By default none is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Archiving {
    /// The kinds whose sessions are closed after a quiet time.
    pub kinds: Vec<String>,
    /// `jobs/session_archive.toml`.
    pub settings: SessionArchive,
}
