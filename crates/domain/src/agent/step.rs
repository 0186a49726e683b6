//! What a run does next, and what one model turn means for it.

use crate::history::Entry;
use crate::run::RunStatus;
use crate::tool_call::ToolCall;

/// What the driver must do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Call the model with the history.
    CallModel,
    /// Execute these calls and bring one response for each.
    CallTools(Vec<ToolCall>),
    /// Nothing: the run ends this way, unless new messages arrive first.
    Done(RunStatus),
}

/// One turn of the model, as the run understood it.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The entry to commit; none when the model said nothing worth keeping.
    pub entry: Option<Entry>,
    /// The tools it asked for, in order.
    pub calls: Vec<ToolCall>,
    /// Text that is the agent's message to its user.
    pub reply: Option<String>,
}

/// The model answered nothing at all, and somebody waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model returned an empty answer")]
pub struct EmptyAnswer;
