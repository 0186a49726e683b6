//! Durable events: what happened to an agentable, each at its position `seq`, and the live deltas between them.
//!
//! An event names rows (a message, a tool call) and carries only what stands nowhere else, so that a turn's
//! text is stored once. What a client reads (AG-UI frames) is rendered from it in `api`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compression;
use crate::id::{AgentId, AgentableId, CompressionId, MessageId, RunId, SessionId, TeamId};
use crate::message::{MessageType, Source};
use crate::model::Usage;
use crate::run::RunStatus;
use crate::session::CompletionReason;
use crate::team::RoutedBy;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A run was accepted and waits for a worker: the first event of each run.
    RunQueued {},
    /// A person's message was stored.
    MessagePosted {
        /// Which one.
        message_id: MessageId,
    },
    /// A worker took the run.
    AttemptStarted {
        /// From 1; above 1 after a crash, a hand-over or a retry.
        attempt: i32,
        /// The iteration that begins.
        iteration: u32,
        /// The id a message of this iteration will have.
        next_message_id: MessageId,
        /// Whether the iteration it takes over was cut off in the middle.
        takeover: bool,
    },
    /// What the model thought, or wrote beside its tool calls.
    Thought {
        /// The whole text.
        text: String,
    },
    /// The agent sent a message.
    MessageSent {
        /// Which one.
        message_id: MessageId,
    },
    /// A tool is about to execute, or has.
    ToolCalled {
        /// The call's id.
        call_id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: Value,
        /// The thread message that shows it.
        message_id: MessageId,
    },
    /// A tool answered.
    ToolReturned {
        /// The call's id.
        call_id: String,
        /// What the model reads.
        content: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// The thread message that shows the call.
        message_id: MessageId,
    },
    /// An iteration is over and the next begins.
    StepFinished {
        /// The one that is over.
        iteration: u32,
        /// The id a message of the next iteration will have.
        next_message_id: MessageId,
    },
    /// The attempt failed; the next is due at `retry_at`.
    RetryScheduled {
        /// Which retry this is, from 1.
        attempt: i32,
        /// How many retries there are at most: one attempt more than that.
        of: i32,
        /// When the next one is due.
        retry_at: DateTime<Utc>,
        /// Why it failed: one of the ten model error codes.
        code: String,
        /// The same for a person.
        message: String,
        /// The iteration that was cut off.
        iteration: u32,
    },
    /// A model failed before anything of its answer was seen, and another one answered in its place. Of several, one
    /// event each.
    ModelFallback {
        /// Who failed, as `provider/model`.
        from: String,
        /// Who was asked instead.
        to: String,
        /// How it failed: one of the ten model error codes.
        code: String,
        /// The same for a person.
        message: String,
    },
    /// The router of a team picked who answers this run.
    TeamRouted {
        /// Which team.
        team_id: TeamId,
        /// Which of its agents.
        agent_id: AgentId,
        /// What that is called.
        agent_name: String,
        /// Who decided.
        by: RoutedBy,
        /// Why, for a person.
        reason: String,
    },
    /// The beginning of the conversation was summarised for the model; people still read all of it.
    ContextCompressed {
        /// Which one.
        compression_id: CompressionId,
        /// Why.
        reason: compression::Reason,
        /// Entries that were sent before.
        entries_before: usize,
        /// Entries that are sent now, the summary among them.
        entries_after: usize,
        /// About how many tokens a request had.
        tokens_before: u64,
        /// About how many it has now.
        tokens_after: u64,
        /// Who wrote the summary, as `provider/model`; none: it is an extract.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The agentable got the title that nobody had given it.
    TitleSet {
        /// It.
        title: String,
        /// Whether no run was open then: it is told after the end of the run it names.
        between_runs: bool,
    },
    /// The error message of the run entered the thread, or changed: all of it, as of here.
    ErrorShown {
        /// Which one: each run has one at most.
        message_id: MessageId,
        /// What a person reads.
        content: String,
        /// See [`crate::error_message::ErrorMessage`].
        metadata: Value,
    },
    /// A task was created: it works on its own, in a stream of its own.
    TaskStarted {
        /// Which one, as shown.
        task_id: String,
        /// Its run.
        task_run_id: RunId,
        /// What it is called.
        title: String,
        /// The thread message that shows the call which created it.
        message_id: MessageId,
    },
    /// A task of this agentable ended.
    TaskEnded {
        /// Which one, as shown.
        task_id: String,
        /// Its run.
        task_run_id: RunId,
        /// What it is called.
        title: String,
        /// How it ended.
        status: RunStatus,
        /// What cut it off: a stop rule, an error, who cancelled it. None: it was done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Which error, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// The same for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A worker that is going away let go of the run.
    HandedOver {
        /// The iteration that was cut off.
        iteration: u32,
    },
    /// A session was closed before this run: what it held stands in the history no more.
    SessionArchived {
        /// Which one.
        session_id: SessionId,
        /// Which of the agentable's, from 1.
        number: i64,
        /// Why.
        reason: CompletionReason,
        /// When its first entry was written.
        started_at: DateTime<Utc>,
        /// When its last entry was.
        completed_at: DateTime<Utc>,
    },
    /// The run is over.
    RunFinished {
        /// How it ended.
        status: RunStatus,
        /// The open iteration; none when no worker had it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iteration: Option<u32>,
        /// Tokens of all its model calls.
        #[serde(default)]
        usage: Usage,
        /// For a person, when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Which error, when it failed; of a cancelled run, who asked: `user`, `interrupt`, `rollback`, …
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
}

impl Event {
    /// The message it names, if it names one.
    #[must_use]
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

    /// Whether live text may stay open across it: facts that reach the stream from outside the run, and the error
    /// message and the change of model, which are committed with the turn that was being streamed; what is committed
    /// before anything is streamed, such as the choice of an agent, and what comes from beside the run.
    #[must_use]
    pub fn is_transparent(&self) -> bool {
        matches!(
            self,
            Self::MessagePosted { .. }
                | Self::RunQueued {}
                | Self::ErrorShown { .. }
                | Self::ModelFallback { .. }
                | Self::TeamRouted { .. }
                | Self::SessionArchived { .. }
                | Self::ContextCompressed { .. }
                | Self::TitleSet { .. }
                | Self::TaskStarted { .. }
                | Self::TaskEnded { .. }
        )
    }
}

/// The content of the message an event names, joined in so that a stream needs no second look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageBody {
    /// Who wrote it.
    pub source: Source,
    /// Message or tool cell.
    pub message_type: MessageType,
    /// Its text.
    pub content: String,
    /// Its metadata; absent when empty.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
}

/// An event as it was committed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    /// Its position; positions of one agentable have no gap.
    pub seq: i64,
    /// The run it belongs to.
    pub run_id: RunId,
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// What happened.
    pub event: Event,
    /// The message it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<MessageBody>,
}

/// Which of the texts of an iteration a delta belongs to. An iteration streams its reasoning first, then at
/// most one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What the model thinks.
    Reasoning,
    /// What the user reads.
    Message,
}

/// A piece of text on its way to live streams. May be lost: the durable event carries the whole text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// The message the iteration is writing.
    pub message_id: MessageId,
    /// Which of its texts.
    pub part: Part,
    /// Of a message: how many characters of reasoning came before it.
    #[serde(default)]
    pub reasoning_chars: u32,
    /// How many characters of this part came before `text`.
    pub offset: u32,
    /// The piece.
    pub text: String,
}

/// What rides the bus to the streams of one agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Live {
    /// Text as the model writes it.
    Delta(Delta),
    /// Events just committed, in order and without a gap among them.
    Committed(Vec<Committed>),
    /// Something was committed: look into Postgres.
    Nudge,
    /// A stream wants the text so far of what is being written; whoever writes it answers with deltas from 0.
    TranscriptWanted,
    /// Somebody asked to cancel this run: whoever drives it looks at Postgres now.
    CancelRequested(RunId),
}

/// A live item and the agentable it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveItem {
    /// About which agentable.
    pub agentable: AgentableId,
    /// What.
    pub live: Live,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_events_keep_their_shape() {
        let event = Event::RunFinished {
            status: RunStatus::MessageSent,
            iteration: Some(1),
            usage: Usage::default(),
            message: None,
            code: None,
        };
        let stored = serde_json::to_value(&event).unwrap();
        assert_eq!(stored["type"], "run_finished");
        assert_eq!(stored["status"], "message_sent");
        assert_eq!(serde_json::from_value::<Event>(stored).unwrap(), event);
    }
}
