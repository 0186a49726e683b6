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

mod entity_id;
mod event;
mod fact;
mod input;
mod interrupt;
mod metadata;
mod run;
mod snapshot;

pub use self::entity_id::{EntityId, InvalidEntityId, StepName};
pub use self::event::{Event, Timestamp};
pub use self::fact::{Fact, PostedMessage};
pub use self::input::{InputContext, InputMessage, InputTool, ResumeEntry, ResumeStatus, RunAgentInput};
pub use self::interrupt::{Interrupt, InterruptDetails, InterruptMetadata};
pub use self::metadata::{HoustonMetadata, Metadata};
pub use self::run::{Outcome, RunResult, SubagentOutcome, TokenUsage};
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
