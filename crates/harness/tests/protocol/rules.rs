//! The protocol's rules, and what is left of them when one is taken away.

/// How a write is kept from a worker whose lock another has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The write and the check are one: the check locks the row (`commit_step`).
    RowLock,
    /// The application checks, then writes.
    CheckThenWrite,
    /// Nobody checks.
    None,
}

/// What is committed before a tool acts outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// The call; of one whose response is missing after a crash, an `effect` is never repeated.
    Committed,
    /// Nothing: the turn is committed together with its results.
    Absent,
    /// The call; whatever is missing after a crash is executed again.
    RunAgain,
}

/// Each field a rule; the weakened protocols differ from [`Rules::CHOSEN`] in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) fence: Fence,
    pub(crate) intent: Intent,
    /// What is due is looked for in the database.
    pub(crate) sweep: bool,
    /// A message for a run that somebody drives sets the wake flag.
    pub(crate) wake: bool,
    /// A run that finishes reads unread messages under the row lock first.
    pub(crate) reread: bool,
    /// A write that may have landed is sent again under the same id.
    pub(crate) write_id: bool,
    /// A run that somebody cancelled reads nothing that was posted later.
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
