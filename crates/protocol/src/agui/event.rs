//! The AG-UI events of a stream, with Houston's additions to them.

use std::borrow::Cow;

use houston_domain::compression::CompressionReason;
use houston_domain::focus::FocusRef;
use houston_domain::id::{AgentId, MessageId, QuestionId, RunId, SessionId, TeamId};
use houston_domain::message::{MessageType, Source};
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_domain::session::CompletionReason;
use houston_domain::team::RoutedBy;
use houston_domain::tool_call::ToolErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    EntityId, Outcome, Role, RunResult, SnapshotMessage, SnapshotMetadata, SubagentOutcome, TokenUsage,
};
use crate::question::CallToApprove;
use crate::time::Time;

/// When the event was committed, in milliseconds since 1970. Live text has no timestamp.
pub type Timestamp = Option<i64>;

/// One event of a stream.
///
/// ```json
/// {"type": "TEXT_MESSAGE_CONTENT", "messageId": "msg_0190…", "delta": "Hello"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Event<'a> {
    /// A run starts.
    /// ```json
    /// {"type": "RUN_STARTED", "timestamp": 1795338000000, "threadId": "goal_0190…", "runId": "run_0190…", "protocolVersion": "1.0"}
    /// ```
    #[serde(rename_all = "camelCase")]
    RunStarted {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        /// The public id of the agentable, as in `goal_0190…`.
        thread_id: Cow<'a, str>,
        run_id: RunId,
        /// [`PROTOCOL_VERSION`](super::PROTOCOL_VERSION).
        protocol_version: Cow<'a, str>,
    },
    /// A run ended without an error.
    /// ```json
    /// {"type": "RUN_FINISHED", "timestamp": 1795338007120, "threadId": "goal_0190…", "runId": "run_0190…",
    ///  "result": {"status": "message_sent", "cost": "0.0012"}, "outcome": {"type": "success"},
    ///  "usage": [{"inputTokens": 900, "outputTokens": 40, "totalTokens": 940}]}
    /// ```
    #[serde(rename_all = "camelCase")]
    RunFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        thread_id: Cow<'a, str>,
        run_id: RunId,
        result: RunResult<'a>,
        outcome: Outcome<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<[TokenUsage; 1]>,
    },
    /// A run failed.
    /// ```json
    /// {"type": "RUN_ERROR", "timestamp": 1795338007120, "message": "The AI model is busy right now.",
    ///  "code": "RATE_LIMITED", "metadata": {"houston": {"cause": "openai: slow down (HTTP 429)"}}}
    /// ```
    RunError {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        /// The error for end users: no settings, no status codes.
        message: Cow<'a, str>,
        /// `houston.cause`: the error for developers and operators.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Metadata<'a>>,
        /// A model error code, as in `RATE_LIMITED`, or the status of the run.
        code: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<[TokenUsage; 1]>,
    },
    /// An iteration starts: a model call with the tool calls it asks for.
    /// ```json
    /// {"type": "STEP_STARTED", "timestamp": 1795338000010, "stepName": "iteration 1"}
    /// ```
    #[serde(rename_all = "camelCase")]
    StepStarted {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        step_name: Cow<'a, str>,
    },
    /// An iteration ended.
    /// ```json
    /// {"type": "STEP_FINISHED", "timestamp": 1795338007100, "stepName": "iteration 1"}
    /// ```
    #[serde(rename_all = "camelCase")]
    StepFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        step_name: Cow<'a, str>,
    },
    /// A message of the agent starts.
    /// ```json
    /// {"type": "TEXT_MESSAGE_START", "messageId": "msg_0190…", "role": "assistant"}
    /// ```
    #[serde(rename_all = "camelCase")]
    TextMessageStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        role: Role,
        /// See [`Delta::is_draft`](houston_domain::event::Delta). For other formats than this.
        #[serde(skip)]
        is_draft: bool,
    },
    /// A piece of the message; never empty.
    /// ```json
    /// {"type": "TEXT_MESSAGE_CONTENT", "messageId": "msg_0190…", "delta": "Hello"}
    /// ```
    #[serde(rename_all = "camelCase")]
    TextMessageContent {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        delta: Cow<'a, str>,
    },
    /// The message is complete.
    /// ```json
    /// {"type": "TEXT_MESSAGE_END", "timestamp": 1795338007100, "messageId": "msg_0190…"}
    /// ```
    #[serde(rename_all = "camelCase")]
    TextMessageEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Metadata<'a>>,
    },
    /// The model's reasoning starts.
    /// ```json
    /// {"type": "REASONING_MESSAGE_START", "messageId": "reasoning_0190…", "role": "reasoning"}
    /// ```
    #[serde(rename_all = "camelCase")]
    ReasoningMessageStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        role: Role,
    },
    /// A piece of the reasoning; never empty.
    /// ```json
    /// {"type": "REASONING_MESSAGE_CONTENT", "messageId": "reasoning_0190…", "delta": "The user wants"}
    /// ```
    #[serde(rename_all = "camelCase")]
    ReasoningMessageContent {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        delta: Cow<'a, str>,
    },
    /// The reasoning is complete.
    /// ```json
    /// {"type": "REASONING_MESSAGE_END", "messageId": "reasoning_0190…"}
    /// ```
    #[serde(rename_all = "camelCase")]
    ReasoningMessageEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
    },
    /// The model calls a tool.
    /// ```json
    /// {"type": "TOOL_CALL_START", "timestamp": 1795338003000, "toolCallId": "msg_0190…", "toolCallName": "create_note",
    ///  "metadata": {"houston": {"call_id": "call_1"}}}
    /// ```
    #[serde(rename_all = "camelCase")]
    ToolCallStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        tool_call_id: EntityId,
        /// The name of the tool, as in `create_note`.
        tool_call_name: Cow<'a, str>,
        metadata: Metadata<'a>,
    },
    /// The arguments of the call: a JSON object as text.
    /// ```json
    /// {"type": "TOOL_CALL_ARGS", "toolCallId": "msg_0190…", "delta": "{\"title\":\"Hotels\",\"content\":\"…\"}"}
    /// ```
    #[serde(rename_all = "camelCase")]
    ToolCallArgs {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        tool_call_id: EntityId,
        delta: Cow<'a, str>,
    },
    /// The arguments are complete.
    /// ```json
    /// {"type": "TOOL_CALL_END", "toolCallId": "msg_0190…"}
    /// ```
    #[serde(rename_all = "camelCase")]
    ToolCallEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        tool_call_id: EntityId,
    },
    /// The result of the call.
    /// ```json
    /// {"type": "TOOL_CALL_RESULT", "timestamp": 1795338003100, "messageId": "result_0190…", "toolCallId": "msg_0190…",
    ///  "content": "saved", "role": "tool"}
    /// ```
    #[serde(rename_all = "camelCase")]
    ToolCallResult {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        tool_call_id: EntityId,
        content: Cow<'a, str>,
        role: Role,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Metadata<'a>>,
    },
    /// A task was created. It has runs and an event stream of its own.
    /// ```json
    /// {"type": "SUBAGENT_STARTED", "subagentRunId": "run_0190…", "name": "Look up trains", "parentToolCallId": "msg_0190…",
    ///  "metadata": {"houston": {"task_id": "task_0190…"}}}
    /// ```
    #[serde(rename_all = "camelCase")]
    SubagentStarted {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        subagent_run_id: RunId,
        /// The title of the task.
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_tool_call_id: Option<EntityId>,
        metadata: Metadata<'a>,
    },
    /// The task was completed, or continues beyond this run.
    /// ```json
    /// {"type": "SUBAGENT_FINISHED", "subagentRunId": "run_0190…", "outcome": {"type": "success"}}
    /// ```
    #[serde(rename_all = "camelCase")]
    SubagentFinished {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        subagent_run_id: RunId,
        outcome: SubagentOutcome,
    },
    /// The task failed or was cancelled.
    /// ```json
    /// {"type": "SUBAGENT_ERROR", "subagentRunId": "run_0190…", "message": "cancelled by user", "code": "cancelled"}
    /// ```
    #[serde(rename_all = "camelCase")]
    SubagentError {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        subagent_run_id: RunId,
        message: Cow<'a, str>,
        code: Cow<'a, str>,
    },
    /// The complete current state of a message that changes in place: [`ERROR_ACTIVITY`](crate::agui::ERROR_ACTIVITY) or
    /// [`PLAN_ACTIVITY`](crate::agui::PLAN_ACTIVITY).
    /// ```json
    /// {"type": "ACTIVITY_SNAPSHOT", "messageId": "msg_0190…", "activityType": "houston.error",
    ///  "content": {"text": "The AI model is busy right now.", "code": "RATE_LIMITED", "retryable": true}}
    /// ```
    #[serde(rename_all = "camelCase")]
    ActivitySnapshot {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        activity_type: Cow<'a, str>,
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        content: Cow<'a, Value>,
    },
    /// What changed in a message of which a snapshot was sent: operations of a JSON Patch (RFC 6902) on its content.
    /// ```json
    /// {"type": "ACTIVITY_DELTA", "messageId": "plan_0190…", "activityType": "houston.plan",
    ///  "patch": [{"op": "replace", "path": "/steps/0/status", "value": "done"}]}
    /// ```
    #[serde(rename_all = "camelCase")]
    ActivityDelta {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        message_id: EntityId,
        activity_type: Cow<'a, str>,
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::AnyJson>))]
        patch: Cow<'a, [Value]>,
    },
    /// The state that the agent shares with its front ends, at the start of a run; only of kinds that have one.
    /// ```json
    /// {"type": "STATE_SNAPSHOT", "timestamp": 1795338000000, "snapshot": {"items": ["milk"]}}
    /// ```
    StateSnapshot {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
        snapshot: Cow<'a, Value>,
    },
    /// The state was changed: operations of a JSON Patch (RFC 6902), `add`, `remove` and `replace`.
    /// ```json
    /// {"type": "STATE_DELTA", "timestamp": 1795338003100, "delta": [{"op": "add", "path": "/items/1", "value": "bread"}]}
    /// ```
    StateDelta {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::AnyJson>))]
        delta: Cow<'a, [Value]>,
    },
    /// The complete thread: a client replaces its messages with it.
    /// ```json
    /// {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "msg_0190…", "role": "user", "content": "Plan a trip to Rome"}]}
    /// ```
    MessagesSnapshot {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        messages: Cow<'a, [SnapshotMessage]>,
        /// Which activities it has all of: clients keep those of other types.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<SnapshotMetadata>,
    },
    /// A fact for which AG-UI has no event.
    /// ```json
    /// {"type": "CUSTOM", "name": "houston.title.set", "value": {"title": "A trip to Rome"}}
    /// ```
    Custom {
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp: Option<i64>,
        #[serde(flatten)]
        fact: Fact<'a>,
    },
    /// An event of a newer server. Only read, never written.
    #[serde(other, skip_serializing)]
    Unknown,
}

impl Event<'static> {
    /// Reads the data of a server-sent event. Data that cannot be read is [`Event::Unknown`]: it is of a
    /// newer server.
    pub fn read(data: &str) -> Self {
        serde_json::from_str(data).unwrap_or(Self::Unknown)
    }
}

impl Event<'_> {
    /// Whether the event ends a run.
    pub fn ends_run(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }
}

/// The `name` and the `value` of a `CUSTOM` event.
///
/// ```json
/// {"type": "CUSTOM", "name": "houston.title.set", "value": {"title": "A trip to Rome"}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "name", content = "value")]
pub enum Fact<'a> {
    /// A user or Houston posted a message.
    ///
    /// ```json
    /// {"name": "houston.message.posted", "value": {"message": {"id": "msg_0190…", "source": "user", "message_type": "text",
    ///  "content": "Plan a trip to Rome", "run_id": "run_0190…", "seq": 2, "created_at": "2026-11-22T09:00:00.000Z"}}}
    /// ```
    #[serde(rename = "houston.message.posted")]
    MessagePosted { message: Box<PostedMessage<'a>> },
    /// A worker starts an attempt of the run; the first attempt is 1.
    ///
    /// ```json
    /// {"name": "houston.attempt.started", "value": {"attempt": 1, "iteration": 1}}
    /// ```
    #[serde(rename = "houston.attempt.started")]
    AttemptStarted {
        attempt: i32,
        iteration: u32,
        /// Whether the run waited before; absent: no.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumed: bool,
    },
    /// The run waits for something from outside: an answer, a message, a time. No worker holds it, and the stream stays open.
    ///
    /// ```json
    /// {"name": "houston.run.waiting", "value": {"until": "2026-11-22T09:00:10.500Z"}}
    /// ```
    #[serde(rename = "houston.run.waiting")]
    RunWaiting {
        /// When it goes on by itself; absent: never.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// How far a tool call is. Only while it is new: it is stored nowhere, may be lost, and is not sent again.
    ///
    /// ```json
    /// {"name": "houston.tool.progress", "value": {"toolCallId": "msg_0190…", "progress": 3.0, "total": 10.0, "message": "page 3"}}
    /// ```
    #[serde(rename = "houston.tool.progress")]
    ToolProgress {
        /// The call, as in `TOOL_CALL_START`.
        #[serde(rename = "toolCallId")]
        tool_call_id: EntityId,
        /// So much is done.
        progress: f64,
        /// Of so much; absent: there is no total.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        /// What is done now: one line, at most 200 characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Cow<'a, str>>,
    },
    /// The run asked a question. `POST /v1/questions/{id}/answer` answers it.
    ///
    /// ```json
    /// {"name": "houston.question.asked", "value": {"question_id": "question_0190…", "kind": "approval", "subject": "call_1",
    ///  "text": "May I delete all notes?", "schema": {"type": "boolean"}, "expires_at": "2026-11-23T09:00:00.000Z"}}
    /// ```
    #[serde(rename = "houston.question.asked")]
    QuestionAsked {
        question_id: QuestionId,
        kind: QuestionKind,
        /// What it is about, such as the id of a tool call.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Cow<'a, str>>,
        text: Cow<'a, str>,
        /// The JSON Schema of an answer; absent: any JSON value.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
        schema: Option<Cow<'a, Value>>,
        /// The answer that holds if no answer comes in time.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
        default_value: Option<Cow<'a, Value>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Time>,
        /// The tool call that an approval is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<Box<CallToApprove>>,
    },
    /// A question of the run was closed.
    ///
    /// ```json
    /// {"name": "houston.question.closed", "value": {"question_id": "question_0190…", "state": "answered", "answer": true}}
    /// ```
    #[serde(rename = "houston.question.closed")]
    QuestionClosed {
        question_id: QuestionId,
        state: QuestionState,
        /// Only if it was answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
        answer: Option<Cow<'a, Value>>,
    },
    /// The attempt failed and will be retried: this is retry `attempt` of at most `of`.
    ///
    /// ```json
    /// {"name": "houston.retry.scheduled", "value": {"attempt": 1, "of": 5, "retry_at": "2026-11-22T09:00:10.500Z",
    ///  "code": "RATE_LIMITED", "message": "The AI model is busy right now.", "cause": "openai: slow down (HTTP 429)"}}
    /// ```
    #[serde(rename = "houston.retry.scheduled")]
    RetryScheduled {
        attempt: i32,
        of: i32,
        retry_at: Time,
        code: Cow<'a, str>,
        /// The error for end users.
        message: Cow<'a, str>,
        /// The error for developers and operators.
        cause: Cow<'a, str>,
    },
    /// The user's runs have used up the tokens of their limit: the run begins at `retry_at`.
    ///
    /// ```json
    /// {"name": "houston.rate.limited", "value": {"retry_at": "2026-11-22T09:00:10.500Z"}}
    /// ```
    #[serde(rename = "houston.rate.limited")]
    RateLimited { retry_at: Time },
    /// The worker is shutting down and released the run; another worker continues it.
    ///
    /// ```json
    /// {"name": "houston.run.handed_over", "value": {"iteration": 2}}
    /// ```
    #[serde(rename = "houston.run.handed_over")]
    HandedOver { iteration: u32 },
    /// A model failed and another one was called; both as `provider/model`.
    ///
    /// ```json
    /// {"name": "houston.model.fallback", "value": {"from": "openai/gpt-5", "to": "anthropic/claude-sonnet",
    ///  "code": "TIMEOUT", "message": "openai: no answer for 60 s"}}
    /// ```
    #[serde(rename = "houston.model.fallback")]
    ModelFallback { from: Cow<'a, str>, to: Cow<'a, str>, code: Cow<'a, str>, message: Cow<'a, str> },
    /// The router of a team picked the agent that answers.
    ///
    /// ```json
    /// {"name": "houston.team.routed", "value": {"team_id": "team_0190…", "agent_id": "agent_0190…", "agent_name": "Travel",
    ///  "by": "rule", "reason": "rule 1"}}
    /// ```
    #[serde(rename = "houston.team.routed")]
    TeamRouted {
        team_id: TeamId,
        agent_id: AgentId,
        agent_name: Cow<'a, str>,
        by: RoutedBy,
        reason: Cow<'a, str>,
    },
    /// A session was closed.
    ///
    /// ```json
    /// {"name": "houston.session.archived", "value": {"session_id": "session_0190…", "number": 1,
    ///  "completion_reason": "session_timeout", "started_at": "2026-11-22T09:00:00.000Z", "completed_at": "2026-11-22T09:05:00.000Z"}}
    /// ```
    #[serde(rename = "houston.session.archived")]
    SessionArchived {
        session_id: SessionId,
        number: i64,
        completion_reason: CompletionReason,
        started_at: Time,
        completed_at: Time,
    },
    /// The beginning of the history was replaced by a summary.
    ///
    /// ```json
    /// {"name": "houston.context.compressed", "value": {"reason": "budget", "entries_before": 80, "entries_after": 21,
    ///  "tokens_before": 41000, "tokens_after": 12000, "model": "openai/gpt-5-mini"}}
    /// ```
    #[serde(rename = "houston.context.compressed")]
    ContextCompressed {
        reason: CompressionReason,
        /// Entries of the request before the compression.
        entries_before: usize,
        /// Entries of the request after it, including the summary.
        entries_after: usize,
        /// Estimated tokens of the request before the compression.
        tokens_before: u64,
        /// Estimated tokens of the request after it.
        tokens_after: u64,
        /// The model that wrote the summary; absent for an extract.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
    },
    /// The messages of the run are about another thing than those of the last run with a focus.
    ///
    /// ```json
    /// {"name": "houston.context.shifted", "value": {"from": {"type": "order", "id": "17"}, "to": {"type": "order", "id": "18"}}}
    /// ```
    #[serde(rename = "houston.context.shifted")]
    ContextShifted { from: FocusRef, to: FocusRef },
    /// The message seems to need several operations: the model reads that a plan may pay, and decides.
    ///
    /// ```json
    /// {"name": "houston.analysis", "value": {"strategy": "complex", "operations": 5}}
    /// ```
    #[serde(rename = "houston.analysis")]
    Analysis {
        /// `complex`: several operations.
        strategy: Cow<'a, str>,
        /// How many operations were found in it.
        operations: usize,
    },
    /// A plan was made for the agentable; the activity that follows has its steps.
    ///
    /// ```json
    /// {"name": "houston.plan.created", "value": {"plan_id": "plan_0190…", "goal": "Compare three hotels"}}
    /// ```
    #[serde(rename = "houston.plan.created")]
    PlanCreated { plan_id: Cow<'a, str>, goal: Cow<'a, str> },
    /// The document of a plan was replaced; the activity that follows has its new steps.
    ///
    /// ```json
    /// {"name": "houston.plan.changed", "value": {"plan_id": "plan_0190…", "version": 2, "reason": "`find` failed: 404"}}
    /// ```
    #[serde(rename = "houston.plan.changed")]
    PlanChanged { plan_id: Cow<'a, str>, version: i32, reason: Cow<'a, str> },
    /// A plan ended; the activity that follows has its steps.
    ///
    /// ```json
    /// {"name": "houston.plan.ended", "value": {"plan_id": "plan_0190…", "status": "completed"}}
    /// ```
    #[serde(rename = "houston.plan.ended")]
    PlanEnded {
        plan_id: Cow<'a, str>,
        status: RunStatus,
        /// The error code, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Cow<'a, str>>,
        /// The error for people, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Cow<'a, str>>,
    },
    /// In the stream of a plan: an attempt at a step began.
    ///
    /// ```json
    /// {"name": "houston.plan.step.started", "value": {"path": "each[2].read", "title": "Read reviews", "step": "task", "attempt": 1}}
    /// ```
    #[serde(rename = "houston.plan.step.started")]
    PlanStepStarted {
        path: Cow<'a, str>,
        title: Cow<'a, str>,
        step: Cow<'a, str>,
        attempt: u32,
        /// The task that carries it out, as in `executor_0190…`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<Cow<'a, str>>,
    },
    /// In the stream of a plan: a step succeeded, was skipped or cancelled.
    ///
    /// ```json
    /// {"name": "houston.plan.step.finished", "value": {"path": "each[2].read", "status": "succeeded"}}
    /// ```
    #[serde(rename = "houston.plan.step.finished")]
    PlanStepFinished { path: Cow<'a, str>, status: Cow<'a, str> },
    /// In the stream of a plan: an attempt at a step failed.
    ///
    /// ```json
    /// {"name": "houston.plan.step.failed", "value": {"path": "find", "code": "TIMEOUT", "message": "took longer than it may",
    ///  "retry_at": "2026-11-22T09:00:10.500Z"}}
    /// ```
    #[serde(rename = "houston.plan.step.failed")]
    PlanStepFailed {
        path: Cow<'a, str>,
        code: Cow<'a, str>,
        message: Cow<'a, str>,
        /// When it is tried again; absent: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Time>,
    },
    /// Houston gave the agentable a title.
    ///
    /// ```json
    /// {"name": "houston.title.set", "value": {"title": "A trip to Rome"}}
    /// ```
    #[serde(rename = "houston.title.set")]
    TitleSet { title: Cow<'a, str> },
}

/// The message in a `houston.message.posted` event.
///
/// ```json
/// {"id": "msg_0190…", "source": "user", "message_type": "text", "content": "Plan a trip to Rome", "run_id": "run_0190…",
///  "seq": 2, "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PostedMessage<'a> {
    pub id: MessageId,
    pub source: Source,
    pub message_type: MessageType,
    pub content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::MessageMetadata>))]
    pub metadata: Option<Cow<'a, Value>>,
    pub run_id: RunId,
    /// Its position in the agentable's event stream.
    pub seq: i64,
    pub created_at: Time,
}

/// Houston's additions, under a name of their own: `{"houston": {"is_error": true}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Metadata<'a> {
    #[serde(default)]
    pub houston: HoustonMetadata<'a>,
}

/// The additions. Each field occurs only in some events.
///
/// ```json
/// {"call_id": "call_1", "is_error": true}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HoustonMetadata<'a> {
    /// For a message that no agent wrote: its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The metadata of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::MessageMetadata>))]
    pub metadata: Option<Cow<'a, Value>>,
    /// The id of a tool call, unique within its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<Cow<'a, str>>,
    /// For a tool result: whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// For the result of a call that failed: why, as in `NOT_FOUND`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub code: Option<ToolErrorCode>,
    /// For `SUBAGENT_STARTED`: the task, as in `task_0190…`. Its own event stream has this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Cow<'a, str>>,
    /// How the task ended; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// For `RUN_ERROR`: the error for developers and operators, with settings and status codes, as in the run's `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cow<'a, str>>,
    /// For a message of a snapshot: whether its run was rolled back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
}

impl<'a> From<HoustonMetadata<'a>> for Metadata<'a> {
    fn from(houston: HoustonMetadata<'a>) -> Self {
        Self { houston }
    }
}

#[cfg(test)]
mod tests;
