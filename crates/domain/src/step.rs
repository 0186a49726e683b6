//! Steps: what a run commits at once, and what a step changes ([`decision`]).

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use crate::event::Event;
use crate::frame::MessageBlock;
use crate::history::Entry;
use crate::id::{MessageId, QuestionId, ResultId, RunId, WriteId};
use crate::message::{MessageType, Source};
use crate::model::Usage;
use crate::plan::PlanChanges;
use crate::question::QuestionChanges;
use crate::run::RunStatus;
use crate::tool_call::{EffectClass, PausedCall, ToolResponse};

pub mod decision;

/// A thread message that the step adds.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The message's id.
    pub id: MessageId,
    /// Index of the step event it belongs to, from 0; the message takes that event's position.
    pub event: usize,
    /// Who wrote it: `agent`, `error`, …
    pub source: Source,
    /// Text, or a tool cell.
    pub message_type: MessageType,
    /// The text, or the tool's name for a cell.
    pub content: String,
    /// The message's metadata, a JSON object.
    pub metadata: Value,
}

/// An intent: a tool call that is about to execute.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// The call id the model gave it.
    pub call: String,
    /// The tool's name.
    pub name: String,
    /// What may be repeated after a crash.
    pub effect: EffectClass,
    /// The thread message (tool cell) that shows the call.
    pub cell: MessageId,
}

/// A tool output too large for the history, which holds its beginning and the id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeResult {
    /// The result's id.
    pub id: ResultId,
    /// The id of the call it answers.
    pub call: String,
    /// The tool's name.
    pub tool: String,
    /// The whole output.
    pub content: String,
}

/// A model call: its provider has begun to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ModelCall {
    /// The part before the slash in `anthropic/claude-…`.
    pub provider: String,
    /// The part after the slash.
    pub model: String,
    /// The iteration of the run, from 1.
    pub iteration: u32,
    /// Tokens used, and their cost if it is known.
    pub usage: Usage,
    /// Whether the provider itself reported the cost.
    pub reported: bool,
    /// Whether tokens are estimated, because the answer was cut off before the provider reported them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// How long it took; `None`: it was not measured.
    pub timing: Option<CallTiming>,
}

/// How long a model call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CallTiming {
    /// Milliseconds from the request to the first event of the answer.
    pub first_event_ms: u32,
    /// Milliseconds from the request to the end of the answer.
    pub took_ms: u32,
}

/// What the step does with the run and its lock.
#[derive(Debug, Clone, PartialEq)]
pub enum RunTransition {
    /// Keep the lock and continue.
    Continue {
        /// Whether unread messages enter the history now (not while tool calls are open).
        read: bool,
        /// The `StepFinished` event, if this step ends an iteration.
        event: Option<Event>,
    },
    /// End the run, unless unread messages have arrived: then continue with them. A run with a cancel request ends
    /// as cancelled instead and reads nothing more; the same holds for `Terminate`.
    Complete {
        /// The `RunFinished` event.
        event: Event,
        /// The `StepFinished` event, written instead if the run continues.
        continue_event: Event,
        /// The outcome.
        ending: Ending,
    },
    /// End the run even if messages are unread; they open the next run.
    Terminate {
        /// The `RunFinished` event.
        event: Event,
        /// The outcome.
        ending: Ending,
    },
    /// Release the lock until the next attempt is due.
    Retry {
        /// The `RetryScheduled` event.
        event: Event,
        /// When the next attempt is due.
        at: DateTime<Utc>,
        /// Whether this attempt counts towards the limit of failed attempts.
        counts: bool,
        /// Why this attempt failed.
        ending: Ending,
    },
    /// Release the lock and wait for something from outside: a message, an answer, a time. If it has arrived already,
    /// continue, and read unread messages.
    Wait {
        /// The `RunWaiting` event; none if the run continues.
        event: Event,
        /// When the run goes on by itself; `None`: never.
        until: Option<DateTime<Utc>>,
        /// The questions that it waits for: if one of them is closed, the run continues.
        questions: Vec<QuestionId>,
        /// Set while tool calls are open, whose results come before any message in the history: nothing is read then. The
        /// number of unread messages that have been looked at; only further ones continue the run.
        open_calls: Option<i32>,
    },
    /// Release the lock now, so that another worker continues (hand-over).
    Release {
        /// The `HandedOver` event.
        event: Event,
    },
}

impl RunTransition {
    /// The outcome, if the run ends with the step.
    pub fn final_ending(&self) -> Option<&Ending> {
        match self {
            Self::Complete { ending, .. } | Self::Terminate { ending, .. } => Some(ending),
            Self::Continue { .. } | Self::Retry { .. } | Self::Wait { .. } | Self::Release { .. } => None,
        }
    }
}

/// The outcome of a run or an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// The status the run gets.
    pub status: RunStatus,
    /// The error code, as in `MODEL_UNAVAILABLE`, if it failed.
    pub error_code: Option<String>,
    /// The error text for people.
    pub error_message: Option<String>,
}

/// One step. It is committed once, however often it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Identifies the step: the same in every retry.
    pub write: WriteId,
    /// The run.
    pub run: RunId,
    /// History entries, in order.
    pub entries: Vec<Entry>,
    /// Frames of Houston's that enter the history after these entries, as one entry: without their marks.
    pub frames: Vec<MessageBlock>,
    /// Events, in order, without those in `transition`.
    pub events: Vec<Event>,
    /// Thread messages. The error message of a run replaces its earlier version.
    pub messages: Vec<NewMessage>,
    /// Intents: calls about to execute.
    pub intents: Vec<Intent>,
    /// Call id and response of calls whose intent was committed earlier.
    pub responses: Vec<(String, ToolResponse)>,
    /// Calls that go on later, by their id; `None`: a paused call goes on now. A response removes the pause as well.
    pub pauses: Vec<(String, Option<PausedCall>)>,
    /// Tool outputs too large for the history; entries and events hold a preview and the id.
    pub large_results: Vec<LargeResult>,
    /// New metadata of tool cells, by message id.
    pub cells: Vec<(MessageId, Value)>,
    /// Iterations of the run so far.
    pub iterations: u32,
    /// Tokens used since the previous step.
    pub usage: Usage,
    /// The model that was called, as `provider/model`.
    pub model: Option<String>,
    /// The model call whose answer this step commits, with its cost.
    pub call: Option<ModelCall>,
    /// Further model calls that have ended since the previous step, however they ended; each is counted once, by its id.
    pub more_calls: Vec<(WriteId, ModelCall)>,
    /// Questions that the run asks, and those it closes because their answers are not wanted any more. Boxed, like the
    /// next field, because most steps have none.
    pub questions: Option<Box<QuestionChanges>>,
    /// What the run's driver remembers from now on; `None`: what it remembered before. Only for runs that something other
    /// than a model drives.
    pub state: Option<Box<Value>>,
    /// What changes in the plan whose run this is. Boxed, because only runs of plans have it.
    pub plan: Option<Box<PlanChanges>>,
    /// Whether the agent had read what strangers wrote: then the report of its task is marked.
    pub untrusted: bool,
    /// What happens to the run and its lock.
    pub transition: RunTransition,
}
