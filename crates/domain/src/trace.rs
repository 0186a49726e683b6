//! Traces of runs (`houston.trace`, version 1): what a run was given, what it did, and what was answered, as lines of JSON.
//!
//! ```text
//! {"type":"header","format":"houston.trace","version":1,"run":"run_…","kind":"goal","limits":{…},…}
//! {"type":"before","role":"user","content":[…]}                    entries of the session before the run
//! {"type":"event","seq":1,"at":"…","event":{"type":"run_queued"}}
//! {"type":"message","at":"…","content":[…]}                        what the run read
//! {"type":"answer","at":"…","content":[…],"stop":"tool_use","usage":{…}}
//! {"type":"tool","at":"…","call_id":"…","name":"…","input":{…},"response":{…},"ms":12}
//! {"type":"results","at":"…","content":[…]}                        the entry that the results became
//! {"type":"compressed","at":"…","summary":"…","remaining":4}
//! {"type":"plan","at":"…","version":1,"document":{…},…}            a version of the document of a plan
//! {"type":"step","at":"…","path":"each[2].read","outcome":"succeeded","result":…}
//! {"type":"advance","at":"…","start":["write"],…}                  what the state machine of the plan said then
//! {"type":"footer","lines":9,"sha256":"…"}                         over all bytes before it
//! ```
//!
//! A trace is made from what the run has committed; nothing is stored for it ([`record`]). [`replay`] drives
//! [`AgentRun`](crate::agent::AgentRun) with it, or the state machine of its plan, and finds the first difference, [`compare`]
//! sets two ways through a task side by side. Texts that look like keys are redacted as in the log; how much of a text is
//! read is limited ([`MAX_BYTES`], [`MAX_LINES`], [`MAX_LINE_BYTES`]).

pub mod checkpoint;
pub mod compare;
pub mod expectation;
pub mod plan;
pub mod record;
pub mod replay;
mod sent;
pub mod stability;
mod text;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::RunPolicy;
use crate::agent::limits::Limits;
use crate::agentable::Reply;
use crate::event::Event;
use crate::history::{Block, Entry};
use crate::id::RunId;
use crate::model::{StopReason, Usage};
use crate::overseer;
use crate::tool_call::{ToolDefinition, ToolResponse};

pub use text::{InvalidTrace, MAX_BYTES, MAX_LINE_BYTES, MAX_LINES};

/// The name of the format.
pub const FORMAT: &str = "houston.trace";
/// The version that is written.
pub const VERSION: u32 = 1;

/// With what an agentable runs: its kind as its agent, its tenant and its own settings change it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// See [`Header::conversational`].
    pub conversational: bool,
    /// See [`Header::reply`].
    pub reply: Reply,
    /// See [`Header::driver`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// See [`Header::limits`].
    pub limits: Limits,
    /// See [`Header::tools`].
    pub tools: Vec<ToolDefinition>,
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// The kind of its agentable.
    pub kind: String,
    /// Whether the agent talks with a user.
    pub conversational: bool,
    /// Whether a message of a user opened the run.
    pub expects_reply: bool,
    /// Which text the user reads.
    pub reply: Reply,
    /// The driver that decides what the run does; `None`: its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The limits of the agent when the trace was made.
    pub limits: Limits,
    /// The position of the first entry in the history of the agentable, as `houston history` counts.
    #[serde(default = "first_position")]
    pub position: i64,
    /// The summary that an earlier run of the session has put in the place of the oldest entries; `None`: none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressed: Option<Compressed>,
    /// The definitions of the tools that the agent was offered when the trace was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// The overseer's settings when the trace was made.
    #[serde(default)]
    pub overseer: overseer::Settings,
    /// Cost in US dollars, if it has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<rust_decimal::Decimal>,
}

/// A summary in the place of entries from before the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compressed {
    /// How many of the first entries it replaces.
    pub entries: usize,
    /// The summary.
    pub summary: String,
}

fn first_position() -> i64 {
    1
}

impl Header {
    /// The header of a run of this kind.
    #[must_use]
    pub fn of(run: RunId, kind: &str, snapshot: Snapshot, overseer: overseer::Settings) -> Self {
        let Snapshot { conversational, reply, driver, limits, tools } = snapshot;
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            run,
            kind: kind.to_owned(),
            conversational,
            expects_reply: true,
            reply,
            driver,
            limits,
            position: first_position(),
            compressed: None,
            tools,
            overseer,
            cost: None,
        }
    }

    /// The policy of the run.
    #[must_use]
    pub fn policy(&self) -> RunPolicy {
        let Self { conversational, expects_reply, reply, limits, .. } = *self;
        RunPolicy { conversational, expects_reply, reply, limits }
    }
}

/// A line between the first and the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// An entry of the session before the run.
    Before(Entry),
    /// What the run read.
    Message {
        /// When it was committed.
        at: DateTime<Utc>,
        /// Its blocks.
        content: Vec<Block>,
    },
    /// What the model answered.
    Answer {
        /// When it was committed.
        at: DateTime<Utc>,
        /// Its blocks; empty when it answered nothing.
        content: Vec<Block>,
        /// Why it stopped.
        stop: StopReason,
        /// Tokens and cost.
        #[serde(default)]
        usage: Usage,
        /// The model, as `provider/model`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A tool call with its response.
    Tool {
        /// When it was answered.
        at: DateTime<Utc>,
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        name: String,
        /// Its arguments.
        input: Value,
        /// What it was answered, before the overseer added to it.
        response: ToolResponse,
        /// How long it took, if two events say so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
    },
    /// The entry that the results of a turn became.
    Results {
        /// When it was committed.
        at: DateTime<Utc>,
        /// Its blocks.
        content: Vec<Block>,
    },
    /// The beginning of the history was replaced.
    Compressed {
        /// When it was committed.
        at: DateTime<Utc>,
        /// The summary.
        summary: String,
        /// How many of the newest entries stayed as they were.
        remaining: usize,
    },
    /// A version of the document of a plan.
    Plan(Box<plan::Version>),
    /// What became of a step of a plan.
    Step(Box<plan::Report>),
    /// What the state machine of a plan said.
    Advance(Box<plan::Advanced>),
    /// A durable event of the run.
    Event {
        /// Its position.
        seq: i64,
        /// When it was committed.
        at: DateTime<Utc>,
        /// What happened.
        event: Box<Event>,
    },
}

impl Line {
    /// When it was committed; `None`: before the run.
    #[must_use]
    pub fn at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Before(_) => None,
            Self::Message { at, .. }
            | Self::Answer { at, .. }
            | Self::Tool { at, .. }
            | Self::Results { at, .. }
            | Self::Compressed { at, .. }
            | Self::Event { at, .. } => Some(*at),
            Self::Plan(version) => Some(version.at),
            Self::Step(report) => Some(report.at),
            Self::Advance(advanced) => Some(advanced.at),
        }
    }
}

/// The trace of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The first line.
    pub header: Header,
    /// The lines after it, in order; that with index 0 is line 2.
    pub lines: Vec<Line>,
}

#[cfg(test)]
mod tests;
