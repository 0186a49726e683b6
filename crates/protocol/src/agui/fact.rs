//! Facts that `CUSTOM` events carry.

use std::borrow::Cow;

use houston_domain::compression::CompressionReason;
use houston_domain::focus::FocusRef;
use houston_domain::id::{AgentId, MessageId, QuestionId, RunId, SessionId, TeamId};
use houston_domain::message::{MessageType, Source};
use houston_domain::question::{QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_domain::session::CompletionReason;
use houston_domain::team::RoutedBy;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EntityId;
use crate::question::CallToApprove;
#[cfg(feature = "openapi")]
use crate::schema;
use crate::time::Time;

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
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson, required = false))]
        schema: Option<Cow<'a, Value>>,
        /// The answer that holds if no answer comes in time.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson, required = false))]
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
        #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson, required = false))]
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
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::MessageMetadata>))]
    pub metadata: Option<Cow<'a, Value>>,
    pub run_id: RunId,
    /// Its position in the agentable's event stream.
    pub seq: i64,
    pub created_at: Time,
}
