//! The part of AG-UI 1.0 that Houston speaks. Optional fields are left out, never null; ids are unique in a thread.

use std::fmt;

use houston_domain::compression::Reason;
use houston_domain::id::{AgentId, MessageId, RunId, SessionId, TeamId};
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::session::CompletionReason;
use houston_domain::team::RoutedBy;
use rust_decimal::Decimal;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::events::snapshot_message::SnapshotMessage;
use crate::rfc3339::Time;

/// The protocol version announced at the start of each run.
pub(crate) const PROTOCOL_VERSION: &str = "1.0";

/// The type of the activity that a run's error message is: what a client that knows it shows as a countdown, and
/// any other passes over.
pub(crate) const ERROR_ACTIVITY: &str = "houston.error";

/// The id of something in a thread. A tool call has the id of the message that shows it, so that it is the same
/// in the stream and in the list of messages; what providers call it repeats from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EntityId {
    /// A thread message, or the tool call it shows.
    Message(MessageId),
    /// The reasoning that came before that message.
    Reasoning(MessageId),
    /// What the call shown by that message returned.
    Result(MessageId),
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(id) => id.fmt(f),
            Self::Reasoning(id) => write!(f, "reasoning_{}", id.0.simple()),
            Self::Result(id) => write!(f, "result_{}", id.0.simple()),
        }
    }
}

impl Serialize for EntityId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `iteration 3`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepName(pub(crate) u32);

impl Serialize for StepName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("iteration {}", self.0))
    }
}

/// Milliseconds since 1970; of live text there is none.
pub(crate) type Timestamp = Option<i64>;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(crate) enum Event<'a> {
    RunStarted {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        thread_id: &'a str,
        run_id: RunId,
        protocol_version: &'static str,
    },
    RunFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        thread_id: &'a str,
        run_id: RunId,
        result: RunResult<'a>,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<[TokenUsage; 1]>,
    },
    RunError {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message: &'a str,
        code: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<[TokenUsage; 1]>,
    },
    StepStarted {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        step_name: StepName,
    },
    StepFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        step_name: StepName,
    },
    TextMessageStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
        role: &'static str,
    },
    TextMessageContent {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
        delta: &'a str,
    },
    TextMessageEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Metadata<'a>>,
    },
    ReasoningMessageStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
        role: &'static str,
    },
    ReasoningMessageContent {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
        delta: &'a str,
    },
    ReasoningMessageEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
    },
    ToolCallStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        tool_call_id: EntityId,
        tool_call_name: &'a str,
        metadata: Metadata<'a>,
    },
    ToolCallArgs {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        tool_call_id: EntityId,
        delta: String,
    },
    ToolCallEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        tool_call_id: EntityId,
    },
    ToolCallResult {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
        tool_call_id: EntityId,
        content: &'a str,
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Metadata<'a>>,
    },
    /// A task, which works in a run and a stream of its own.
    SubagentStarted {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        subagent_run_id: RunId,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<EntityId>,
        metadata: TaskMetadata<'a>,
    },
    SubagentFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        subagent_run_id: RunId,
        outcome: SubagentOutcome,
    },
    SubagentError {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        subagent_run_id: RunId,
        message: &'a str,
        code: &'a str,
    },
    /// A message that changes in place: this is all of it.
    ActivitySnapshot {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        message_id: EntityId,
        activity_type: &'static str,
        content: Value,
    },
    MessagesSnapshot {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        messages: &'a [SnapshotMessage],
    },
    Custom {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Timestamp,
        name: &'static str,
        value: Fact<'a>,
    },
}

/// What Houston adds to an event, under its own name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Metadata<'a> {
    pub(crate) houston: Added<'a>,
}

/// See [`Metadata`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Added<'a> {
    /// Of a message that no agent wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<Source>,
    /// The message's own metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<&'a Value>,
    /// What the model calls the tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call_id: Option<&'a str>,
    /// Of a tool call that failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_error: bool,
}

/// Which task it is: its events are under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct TaskMetadata<'a> {
    pub(crate) houston: TaskAdded<'a>,
}

/// See [`TaskMetadata`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct TaskAdded<'a> {
    pub(crate) task_id: &'a str,
    /// How it ended; none while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<RunStatus>,
}

/// How a task's part in a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum SubagentOutcome {
    /// It is done.
    Success,
    /// It works on, beyond this run.
    Suspended,
}

/// The value of a `CUSTOM` event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Fact<'a> {
    Routed {
        team_id: TeamId,
        agent_id: AgentId,
        agent_name: &'a str,
        by: RoutedBy,
        reason: &'a str,
    },
    Message {
        message: Box<Posted<'a>>,
    },
    Attempt {
        attempt: i32,
        iteration: u32,
    },
    Retry {
        attempt: i32,
        of: i32,
        retry_at: Time,
        code: &'a str,
        message: &'a str,
    },
    HandedOver {
        iteration: u32,
    },
    Fallback {
        from: &'a str,
        to: &'a str,
        code: &'a str,
        message: &'a str,
    },
    SessionArchived {
        session_id: SessionId,
        number: i64,
        completion_reason: CompletionReason,
        started_at: Time,
        completed_at: Time,
    },
    Compressed {
        reason: Reason,
        entries_before: usize,
        entries_after: usize,
        tokens_before: u64,
        tokens_after: u64,
        /// Who summarised; none: it is an extract.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
    },
    Title {
        title: &'a str,
    },
}

/// A message as a `CUSTOM` event carries it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Posted<'a> {
    pub(crate) id: MessageId,
    pub(crate) source: Source,
    pub(crate) message_type: MessageType,
    pub(crate) content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<&'a Value>,
    pub(crate) run_id: RunId,
    pub(crate) seq: i64,
    pub(crate) created_at: Time,
}

/// Which of Houston's many ways to end a run it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct RunResult<'a> {
    pub(crate) status: RunStatus,
    /// Who asked, of a cancelled one; after `rollback`, its messages are rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cancelled_by: Option<&'a str>,
    /// What it cost in US dollars, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Decimal>,
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Outcome {
    Success,
    Cancelled,
}

/// Tokens of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenUsage {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    reasoning_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cached_input_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_write_input_tokens: u64,
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl TokenUsage {
    /// None when no model was called.
    pub(crate) fn of(usage: &Usage) -> Option<[Self; 1]> {
        (*usage != Usage::default()).then(|| {
            [Self {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                total_tokens: usage.input_tokens + usage.output_tokens,
                reasoning_tokens: usage.reasoning_tokens,
                cached_input_tokens: usage.cache_read_tokens,
                cache_write_input_tokens: usage.cache_write_tokens,
            }]
        })
    }
}
