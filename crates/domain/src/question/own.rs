//! Questions that Houston itself asks for a run, besides approvals of tool calls: whether a paused run may go on
//! ([`pause`](super::pause)), and whether more may be spent ([`budget`](super::budget)).
//!
//! Their subjects begin with [`PREFIX`], which questions of drivers must not.

use super::NewQuestion;

/// The beginning of the subjects of Houston's own questions.
pub const PREFIX: &str = "houston:";

impl NewQuestion {
    /// Whether Houston itself asks, and the question is not about a tool call.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.approval.is_none() && self.subject.as_deref().is_some_and(|subject| subject.starts_with(PREFIX))
    }
}
