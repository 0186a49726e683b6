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
    };
}
