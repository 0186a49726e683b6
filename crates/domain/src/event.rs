//! Durable events (what happened to an agentable, each at its position `seq`) and the live deltas between them.
//!
//! An event refers to messages by id and carries only what is stored nowhere else, so a message's text is stored once.
//! Events that say no more than a message or a run are not stored at all ([`derived`]). `api` renders them as AG-UI.

pub mod derived;
pub mod topic;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::analysis::Complexity;
use crate::compression::CompressionReason;
use crate::focus::FocusRef;
use crate::guard::DecidedBy;
use crate::id::{AgentId, AgentableId, CompressionId, MessageId, RunId, SessionId, TeamId};
use crate::message::{MessageType, Source};
use crate::model::Usage;
use crate::question::{ClosedQuestion, NewQuestion};
use crate::run::RunStatus;
use crate::session::CompletionReason;
use crate::team::RoutedBy;
use crate::tool_call::ToolErrorCode;

/// What happened. As JSON, tagged by `type`; stored so unless it is [`derived`]:
///
/// ```json
/// {"type": "message_posted", "message_id": "msg_0192a3b4c5d67e8f9a0b1c2d3e4f5061"}
/// {"type": "run_finished", "status": "message_sent", "iteration": 1, "usage": {"input_tokens": 900, "output_tokens": 40}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A run was accepted and waits for a worker: the first event of each run.
    RunQueued {},
    /// A message of a user, or a system message, was stored.
    MessagePosted { message_id: MessageId },
    /// A worker claimed the run.
    AttemptStarted {
        /// Number of the attempt, from 1; above 1 after a crash, a hand-over or a retry.
        attempt: i32,
        /// The iteration that begins.
        iteration: u32,
        /// The id that a message of this iteration will have.
        next_message_id: MessageId,
        /// Whether the iteration was interrupted on another worker.
        takeover: bool,
        /// Whether the run waited before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumed: bool,
    },
    /// The model's reasoning, or text it wrote beside its tool calls.
    Thought {
        text: String,
        /// From this character on, the text was streamed as the message of the iteration, which it turned out not to be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withdrawn_at: Option<u32>,
    },
    /// The agent sent a message.
    MessageSent { message_id: MessageId },
    /// A tool call is about to be executed, or has been.
    ToolCalled {
        /// The id of the tool call, unique within the run.
        call_id: String,
        /// The name of the tool.
        name: String,
        /// Its arguments.
        input: Value,
        /// The thread message that displays the call.
        message_id: MessageId,
        /// Which guard decided what about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_by: Option<Box<DecidedBy>>,
    },
    /// A tool call has its result.
    ToolReturned {
        /// The id of the tool call.
        call_id: String,
        /// What the model reads.
        content: String,
        /// Whether the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// Why it failed. Calls of earlier versions have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ToolErrorCode>,
        /// The thread message that displays the call.
        message_id: MessageId,
    },
    /// An iteration ended and the next one begins.
    StepFinished {
        /// The iteration that ended, from 1.
        iteration: u32,
        /// The id that a message of the next iteration will have.
        next_message_id: MessageId,
    },
    /// The attempt failed; the next one is due at `retry_at`.
    RetryScheduled {
        /// Number of this retry, from 1.
        attempt: i32,
        /// Maximum number of retries: one less than the maximum number of attempts.
        of: i32,
        /// When the next attempt is due.
        retry_at: DateTime<Utc>,
        /// Why the attempt failed: a [`ModelErrorCode`](crate::model::ModelErrorCode).
        code: String,
        /// Why the attempt failed, for people.
        message: String,
        /// The iteration that was interrupted.
        iteration: u32,
    },
    /// The user's limit of tokens is used up: the run begins at `retry_at`.
    RateLimited {
        /// When it begins.
        retry_at: DateTime<Utc>,
    },
    /// A model failed before any of its answer was streamed, and another model answered instead. If several models
    /// failed, there is one event for each.
    ModelFallback {
        /// The model that failed, as `provider/model`.
        from: String,
        /// The model that was called instead, as `provider/model`.
        to: String,
        /// Why it failed: a [`ModelErrorCode`](crate::model::ModelErrorCode).
        code: String,
        /// Why it failed, for people.
        message: String,
    },
    /// The router of a team picked the agent that answers this run.
    TeamRouted {
        /// The team.
        team_id: TeamId,
        /// The agent that was picked.
        agent_id: AgentId,
        /// Its name.
        agent_name: String,
        /// What decided: a rule, a model, …
        by: RoutedBy,
        /// Why it was picked, for people.
        reason: String,
    },
    /// The beginning of the history was replaced by a summary for the model; the thread is unchanged.
    ContextCompressed {
        /// The compression.
        compression_id: CompressionId,
        /// Why the history was compressed.
        reason: CompressionReason,
        /// Entries of the request before the compression.
        entries_before: usize,
        /// Entries of the request after it, including the summary.
        entries_after: usize,
        /// Estimated tokens of a request before the compression.
        tokens_before: u64,
        /// Estimated tokens of a request after it.
        tokens_after: u64,
        /// The model that wrote the summary, as `provider/model`; `None` for an extract.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The message is about another thing than that of the last run.
    ContextShifted {
        /// What the last run with a focus was about.
        from: FocusRef,
        /// What this run is about.
        to: FocusRef,
    },
    /// The message seems to need several operations, and the model reads that a plan may pay.
    Analysed { strategy: Complexity, operations: usize },
    /// Houston gave the agentable a title, because it had none.
    TitleSet {
        /// The new title.
        title: String,
        /// Whether no run was open: then the event follows the end of the run it names.
        between_runs: bool,
    },
    /// The state that the agentable shares with front ends was changed.
    StateChanged {
        /// What changed: a JSON Patch (RFC 6902).
        delta: Vec<Value>,
        /// Whether no run was open: then the event follows the end of the run it names.
        between_runs: bool,
    },
    /// The error message of the run was added to the thread, or changed; this is its complete new state.
    ErrorShown {
        /// The error message: each run has at most one.
        message_id: MessageId,
        /// The text for the user.
        content: String,
        /// See [`crate::error_message::ErrorMessage`].
        metadata: Value,
    },
    /// A task was created: it has runs and an event stream of its own.
    TaskStarted {
        /// The public id of the task, as in `task_<32 hex digits>`.
        task_id: String,
        /// The run of the task.
        task_run_id: RunId,
        /// The title of the task.
        title: String,
        /// The thread message that displays the call which created the task.
        message_id: MessageId,
    },
    /// A task of this agentable ended.
    TaskEnded {
        /// The public id of the task, as in `task_<32 hex digits>`.
        task_id: String,
        /// The run of the task.
        task_run_id: RunId,
        /// The title of the task.
        title: String,
        /// How its run ended.
        status: RunStatus,
        /// What stopped it: a stop rule, an error, or who cancelled it. `None` if it was completed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The error code, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The error for people, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A plan was made for this agentable.
    PlanCreated {
        /// The public id of the plan, as in `plan_<32 hex digits>`.
        plan_id: String,
        /// What it is for.
        goal: String,
        /// Its steps as people see them: the content of the activity that front ends show.
        checklist: Value,
    },
    /// A plan of this agentable got on.
    PlanProgress {
        /// The public id of the plan.
        plan_id: String,
        /// What changed in its list of steps: a JSON Patch (RFC 6902). Empty if the whole list is there.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        delta: Vec<Value>,
        /// The whole list: in the first such event of a run that does not have the list yet, and where it has other steps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checklist: Option<Value>,
    },
    /// The document of a plan of this agentable was replaced.
    PlanChanged {
        /// The public id of the plan.
        plan_id: String,
        /// The number of the new document.
        version: i32,
        /// Why.
        reason: String,
        /// Its steps as people see them.
        checklist: Value,
    },
    /// A plan of this agentable ended.
    PlanEnded {
        /// The public id of the plan.
        plan_id: String,
        /// How its run ended.
        status: RunStatus,
        /// The error code, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The error for people, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Its steps as people see them.
        checklist: Value,
    },
    /// A step of this plan began.
    PlanStepStarted {
        /// Its path, as in `each[2].read`.
        path: String,
        /// Its title.
        title: String,
        /// What it does: `tool`, `llm`, `task`, …
        step: String,
        /// Number of this attempt, from 1.
        attempt: u32,
        /// The task that carries it out, as in `executor_0190…`. Other steps have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<String>,
    },
    /// A step of this plan succeeded, was skipped or cancelled.
    PlanStepFinished {
        /// Its path.
        path: String,
        /// Its status.
        status: String,
    },
    /// An attempt at a step of this plan failed.
    PlanStepFailed {
        /// Its path.
        path: String,
        /// The error code.
        code: String,
        /// The error for people.
        message: String,
        /// When it is tried again; `None`: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<DateTime<Utc>>,
    },
    /// A worker that is shutting down released the run.
    HandedOver {
        /// The iteration that was interrupted.
        iteration: u32,
    },
    /// The run let go of its worker: it waits for something from outside, or until a time.
    RunWaiting {
        /// When it goes on by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<DateTime<Utc>>,
        /// The iteration that goes on then.
        iteration: u32,
    },
    /// The run asked a question.
    QuestionAsked(Box<NewQuestion>),
    /// A question of the run was closed.
    QuestionClosed(ClosedQuestion),
    /// A session was closed before this run: its entries are no longer sent to the model.
    SessionArchived {
        /// The session.
        session_id: SessionId,
        /// Number of the session within its agentable, from 1.
        number: i64,
        /// Why it was closed.
        reason: CompletionReason,
        /// When its first entry was written.
        started_at: DateTime<Utc>,
        /// When its last entry was written.
        completed_at: DateTime<Utc>,
    },
    /// The run ended.
    RunFinished {
        /// How it ended.
        status: RunStatus,
        /// The open iteration; `None` when no worker held the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iteration: Option<u32>,
        /// Tokens and cost of all its model calls.
        #[serde(default)]
        usage: Usage,
        /// The error for people, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The error code, when it failed; for a cancelled run, who requested it: `user`, `interrupt`, …
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// Its answer as a value, if a form was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<Value>>,
    },
}

impl Event {
    /// The message this event refers to, if any.
    pub fn message_id(&self) -> Option<MessageId> {
        match self {
            Self::MessagePosted { message_id }
            | Self::MessageSent { message_id }
            | Self::ToolCalled { message_id, .. }
            | Self::ErrorShown { message_id, .. }
            | Self::ToolReturned { message_id, .. } => Some(*message_id),
            _ => None,
        }
    }

    /// Whether text that is being streamed stays open across this event. True for
    ///
    /// - events from outside the run (a posted message, tasks, plans, a title),
    /// - events committed with the turn being streamed (an error message), or before it (the choice of an agent).
    pub fn is_transparent(&self) -> bool {
        !matches!(
            self,
            Self::AttemptStarted { .. }
                | Self::Thought { .. }
                | Self::MessageSent { .. }
                | Self::ToolCalled { .. }
                | Self::ToolReturned { .. }
                | Self::StepFinished { .. }
                | Self::RetryScheduled { .. }
                | Self::RateLimited { .. }
                | Self::HandedOver { .. }
                | Self::RunWaiting { .. }
                | Self::RunFinished { .. }
        )
    }
}

/// The content of the message an event refers to, joined in so that a stream needs no second query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageBody {
    /// The author.
    pub source: Source,
    /// Text message or tool cell.
    pub message_type: MessageType,
    /// The text, Markdown.
    pub content: String,
    /// The metadata; `null` when there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
}

/// A committed event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Position in the agentable's stream, without gaps.
    pub seq: i64,
    /// The run it belongs to.
    pub run_id: RunId,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// What happened.
    pub event: Event,
    /// The content of the message the event refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<MessageBody>,
}

/// What the delta bus carries to the open streams of one agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Live {
    /// Text while the model writes it.
    Delta(Delta),
    /// How far a tool call is.
    Progress(CallProgress),
    /// Events that were just committed, in order and without gaps among them.
    Committed(Vec<Committed>),
    /// Events were committed: read them from Postgres.
    Nudge,
    /// A stream needs the text written so far; the worker that drives the run answers with deltas from offset
    /// 0.
    TranscriptWanted,
    /// A cancel of this run was requested: the worker that drives it must check Postgres now.
    CancelRequested(RunId),
}

/// A live item and its agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveItem {
    /// The agentable.
    pub agentable: AgentableId,
    /// The item.
    pub live: Live,
}

/// Which text of an iteration a delta belongs to. An iteration streams its reasoning first, then at most one
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The model's reasoning.
    Reasoning,
    /// The message the user reads.
    Message,
}

/// A piece of text on its way to open streams. It may be lost: the durable event carries the whole text.
///
/// ```json
/// {"message_id": "msg_0192a3b4c5d67e8f9a0b1c2d3e4f5061", "part": "message", "reasoning_chars": 0, "offset": 5, "text": " world"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The message that the iteration is writing.
    pub message_id: MessageId,
    /// Which text of the iteration.
    pub part: Part,
    /// For a message: number of characters of reasoning before it.
    #[serde(default)]
    pub reasoning_chars: u32,
    /// Number of characters of this part before `text`.
    pub offset: u32,
    /// The piece of text.
    pub text: String,
    /// Whether the message is withdrawn if a call follows. Clients that cannot take text back are sent the whole of it once that is
    /// decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_draft: bool,
}

/// How far a tool call is, for people who watch: stored nowhere, and it may be lost.
///
/// ```json
/// {"message_id": "msg_0192a3b4c5d67e8f9a0b1c2d3e4f5061", "progress": 3.0, "total": 10.0, "message": "page 3"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallProgress {
    /// The thread message (tool cell) that shows the call.
    pub message_id: MessageId,
    /// So much is done.
    pub progress: f64,
    /// Of so much, if there is a total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is done now, one short line; empty: not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[cfg(test)]
mod tests;
