//! The part of AG-UI 1.0 that Houston uses. Optional fields are left out, never null; ids are unique within a thread.
//!
//! | what happens | events |
//! |---|---|
//! | a run | `RUN_STARTED` … `RUN_FINISHED` or `RUN_ERROR` |
//! | a run waits for a person | `RUN_FINISHED` with an interrupt per question; later `RUN_STARTED` again ([`Interrupt`]) |
//! | a run waits for its client to carry out a call | `RUN_FINISHED` with success; the call has no result yet |
//! | a model call and its tools | `STEP_STARTED` … `STEP_FINISHED` |
//! | a message of the agent | `TEXT_MESSAGE_START`, `TEXT_MESSAGE_CONTENT`…, `TEXT_MESSAGE_END` |
//! | the model's reasoning | `REASONING_MESSAGE_START`, `…_CONTENT`…, `…_END` |
//! | a tool call | `TOOL_CALL_START`, `TOOL_CALL_ARGS`, `TOOL_CALL_END`, `TOOL_CALL_RESULT` |
//! | a task | `SUBAGENT_STARTED`, then `SUBAGENT_FINISHED` or `SUBAGENT_ERROR` |
//! | an error for the user | `ACTIVITY_SNAPSHOT` of the type [`ERROR_ACTIVITY`] |
//! | a plan | `ACTIVITY_SNAPSHOT` of the type [`PLAN_ACTIVITY`], `ACTIVITY_DELTA` when its list of steps changes |
//! | the state that agent and front ends share | `STATE_SNAPSHOT` after `RUN_STARTED`, `STATE_DELTA` when it changes |
//! | partial text is taken back | `MESSAGES_SNAPSHOT` |
//! | anything else | `CUSTOM`, see [`Fact`] |

mod event;
mod input;
mod run;
mod snapshot;

use std::fmt;
use std::str::FromStr;

use houston_domain::as_text;
use houston_domain::id::{AgentableId, MessageId, parse_prefixed};

pub use self::event::{Event, Fact, HoustonMetadata, Metadata, PostedMessage, Timestamp};
pub use self::input::{InputMessage, ResumeEntry, ResumeStatus, RunAgentInput};
pub use self::run::{
    Interrupt, InterruptDetails, InterruptMetadata, Outcome, RunResult, SubagentOutcome, TokenUsage,
};
pub use self::snapshot::{
    AuthoritativeActivities, Role, SnapshotContent, SnapshotMessage, SnapshotMetadata, ToolCall,
    ToolCallType, ToolFunction,
};

/// The protocol version in `RUN_STARTED`.
pub const PROTOCOL_VERSION: &str = "1.0";

/// The activity type of a run's error message. Clients that support it display a countdown to the next attempt; others
/// ignore it.
pub const ERROR_ACTIVITY: &str = "houston.error";

/// The activity type of the list of a plan's steps; its message has the id of the plan. In a stream of the agentable that the
/// plan works for.
pub const PLAN_ACTIVITY: &str = "houston.plan";

/// The id of a message, reasoning or tool result in a thread, as in `msg_019ab3c4d5e67f8091a2b3c4d5e6f708`.
///
/// A tool call has the id of the message that displays it, so that it has the same id in the stream and in the list of
/// messages; call ids are unique only within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntityId {
    /// A thread message, or the tool call it displays: `msg_0190…`.
    Message(MessageId),
    /// The reasoning before that message: `reasoning_0190…`.
    Reasoning(MessageId),
    /// The result of the tool call that the message displays: `result_0190…`.
    Result(MessageId),
    /// The list of a plan's steps: `plan_0190…`.
    Plan(AgentableId),
}

/// A text that is not an [`EntityId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form msg_, reasoning_, result_ or plan_<32 hex digits>")]
pub struct InvalidEntityId;

impl EntityId {
    /// The list of steps of the plan with this public id, whatever its kind is called.
    pub fn of_plan(public_id: &str) -> Option<Self> {
        let (kind, _) = public_id.rsplit_once('_')?;
        parse_prefixed(kind, public_id).ok().map(|id| Self::Plan(AgentableId(id)))
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(id) => id.fmt(f),
            Self::Reasoning(id) => write!(f, "reasoning_{}", id.0.simple()),
            Self::Result(id) => write!(f, "result_{}", id.0.simple()),
            Self::Plan(id) => write!(f, "plan_{}", id.0.simple()),
        }
    }
}

impl FromStr for EntityId {
    type Err = InvalidEntityId;

    fn from_str(text: &str) -> Result<Self, InvalidEntityId> {
        let id = |prefix| parse_prefixed(prefix, text).map(MessageId);
        id(MessageId::PREFIX)
            .map(Self::Message)
            .or_else(|_| id("reasoning").map(Self::Reasoning))
            .or_else(|_| id("result").map(Self::Result))
            .or_else(|_| parse_prefixed("plan", text).map(|id| Self::Plan(AgentableId(id))))
            .map_err(|_| InvalidEntityId)
    }
}

as_text!(EntityId);

#[cfg(feature = "openapi")]
mod schemas {
    use houston_domain::schema::id;
    use utoipa::openapi::{RefOr, Schema};
    use utoipa::{PartialSchema, ToSchema};

    use super::EntityId;

    impl PartialSchema for EntityId {
        fn schema() -> RefOr<Schema> {
            id("(msg|reasoning|result|plan)").examples(["msg_019ab3c4d5e67f8091a2b3c4d5e6f708"]).into()
        }
    }

    impl ToSchema for EntityId {}
}
