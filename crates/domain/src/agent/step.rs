//! What a run does next, and the result of one model turn.

use crate::history::Entry;
use crate::run::RunStatus;
use crate::tool_call::ToolCall;

/// What the driver must do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Call the model with the history.
    CallModel,
    /// Execute these calls and pass one response for each to [`on_tools`](super::AgentRun::on_tools).
    CallTools(Vec<ToolCall>),
    /// Nothing: the run ends with this status, unless new messages arrive first.
    Done(RunStatus),
}

/// What one turn of the model means for the run.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutcome {
    /// The entry to commit; `None` when the model answered with neither text nor tool calls.
    pub entry: Option<Entry>,
    /// The tool calls the model asked for, in order.
    pub calls: Vec<ToolCall>,
    /// Text that is the agent's message to its user.
    pub reply: Option<String>,
}

/// The model's answer was empty although a user is waiting for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model returned an empty answer")]
pub struct EmptyAnswer;
