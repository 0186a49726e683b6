//! Questions that Houston itself asks for a run, besides approvals of tool calls: whether a paused run may go on
//! ([`pause`](super::pause)), whether more may be spent ([`budget`](super::budget)), and what a tool call needs in its middle
//! ([`input`](super::input)).
//!
//! Their subjects begin with [`PREFIX`], which questions of drivers must not.

use super::NewQuestion;

/// The beginning of the subjects of Houston's own questions.
pub const PREFIX: &str = "houston:";

impl NewQuestion {
    /// Whether Houston itself asks, and the question is not whether a tool call may be carried out.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.approval.is_none() && self.subject.as_deref().is_some_and(|subject| subject.starts_with(PREFIX))
    }
}
