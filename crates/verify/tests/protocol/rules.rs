//! The rules of the protocol. Weakened protocols lack one of them.

/// How writes of a worker are prevented once another worker has claimed the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The check and the write happen while the row is locked.
    RowLock,
    /// The application checks, then writes.
    CheckThenWrite,
    /// No check.
    None,
}

/// What is committed before a tool is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// The call. After a crash, an `effect` without a committed response is not repeated.
    Committed,
    /// Nothing: the turn is committed together with its results.
    Absent,
    /// The call. After a crash, every call without a committed response is executed again.
    RunAgain,
}

/// Each field is a rule; weakened protocols differ from [`Rules::CHOSEN`] in one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) fence: Fence,
    pub(crate) intent: Intent,
    /// The sweep queries the database for due agentables.
    pub(crate) sweep: bool,
    /// A message for a held run sets the wake flag.
    pub(crate) wake: bool,
    /// A finishing run first reads unread messages under the row lock.
    pub(crate) reread: bool,
    /// A write without a response is sent again with the same id.
    pub(crate) write_id: bool,
    /// A cancelled run reads no messages posted after the cancel.
    pub(crate) cancel_bounds: bool,
    /// A run that is about to wait first looks at the wake flag under the row lock.
    pub(crate) wait_rereads: bool,
    /// It also looks at its question, because an earlier step may have cleared the flag that the answer set.
    pub(crate) wait_looks_at_answer: bool,
    /// A wait releases the lock.
    pub(crate) wait_releases: bool,
    /// A lock whose holder is alive cannot be claimed, whatever has woken the run.
    pub(crate) claims_free_locks_only: bool,
}

impl Rules {
    pub(crate) const CHOSEN: Self = Self {
        fence: Fence::RowLock,
        intent: Intent::Committed,
        sweep: true,
        wake: true,
        reread: true,
        write_id: true,
        cancel_bounds: true,
        wait_rereads: true,
        wait_looks_at_answer: true,
        wait_releases: true,
        claims_free_locks_only: true,
    };
}
