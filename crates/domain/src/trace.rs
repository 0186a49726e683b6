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
pub mod stability;

use std::fmt::Write as _;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::agent::limits::Limits;
use crate::agent::{Reply, RunPolicy};
use crate::event::Event;
use crate::history::{Block, Entry};
use crate::id::RunId;
use crate::masks::{map_texts, without_keys};
use crate::model::{StopReason, Usage};
use crate::overseer;
use crate::tool_call::{ToolDefinition, ToolResponse};

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

/// The largest trace that is read, in bytes: twice the largest that a server gives out by default.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The most lines of a trace.
pub const MAX_LINES: usize = 200_000;

/// The longest line, in bytes.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The longest duration of an attempt, in seconds: a year.
const MAX_DURATION_S: u64 = 366 * 24 * 3_600;

/// The longest reason, in characters: reasons quote what they refuse.
const MAX_REASON: usize = 300;

/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

/// Why a text is no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct InvalidTrace {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
struct Tagged<T> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(flatten)]
    value: T,
}

#[derive(Serialize, Deserialize)]
struct Footer {
    lines: usize,
    sha256: String,
}

fn wrong(line: usize, reason: impl Into<String>) -> InvalidTrace {
    InvalidTrace { line, reason: reason.into() }
}

/// What the parser says behind `before`, without its own count of lines, and not longer than people read.
fn of_json(line: usize, before: &str, error: &serde_json::Error) -> InvalidTrace {
    let text = error.to_string().replace(" at line 1 column ", " at column ");
    let reason: String = text.chars().take(MAX_REASON).collect();
    let more = if reason.len() < text.len() { "…" } else { "" };
    wrong(line, format!("{before}{reason}{more}"))
}

impl Trace {
    /// The trace as lines of JSON, with redacted keys.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut add = |line: Value| {
            // Names of fields, too: a tool may answer with an object that has keys as names.
            let _ = writeln!(text, "{}", map_texts(line, &without_keys));
        };
        add(json_line("header", &self.header));
        // Lines have string keys only, so they can be written.
        self.lines.iter().for_each(|line| add(serde_json::to_value(line).unwrap_or_default()));
        let footer = Footer { lines: self.lines.len() + 2, sha256: hex::encode(Sha256::digest(&text)) };
        let _ = writeln!(text, "{}", json_line("footer", &footer));
        text
    }

    /// Parses what [`Self::to_text`] has written.
    ///
    /// # Errors
    /// [`InvalidTrace`] with the first line that cannot be read; with the last one when its digest is not that of the lines
    /// before it.
    pub fn parse(text: &str) -> Result<Self, InvalidTrace> {
        if text.len() > MAX_BYTES {
            let given = text.len();
            return Err(wrong(1, format!("the trace has {given} bytes; at most {MAX_BYTES} are read")));
        }
        let text = text.trim_end_matches(['\n', '\r']);
        check_sizes(text)?;
        let (body, footer) = match text.rfind('\n') {
            Some(end) => text.split_at(end + 1),
            None => ("", text),
        };
        let count = body.lines().count() + 1;
        let parsed: Result<Tagged<Footer>, _> = serde_json::from_str(footer);
        let is_footer = parsed.is_ok();
        let checked = check_footer(body, parsed, count);
        match (checked, Self::of_body(body)) {
            // A line that cannot be read says more than a digest that is wrong because of it; not so if lines are missing.
            (Err(error), Err(unread)) => Err(if unread.line > 1 || !is_footer { unread } else { error }),
            (Err(error), Ok(_)) => Err(error),
            (Ok(()), read) => read,
        }
    }

    fn of_body(body: &str) -> Result<Self, InvalidTrace> {
        let mut lines = body.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let header: Tagged<Header> =
            serde_json::from_str(first).map_err(|error| of_json(1, "no header: ", &error))?;
        let Tagged { kind, value: header } = header;
        if kind != "header" || header.format != FORMAT || header.version != VERSION {
            let given: String = format!("{} {}", header.format, header.version).chars().take(80).collect();
            return Err(wrong(1, format!("`{given}` cannot be read; this version reads {FORMAT} {VERSION}")));
        }
        if header.limits.max_duration_s > MAX_DURATION_S {
            return Err(wrong(1, format!("limits.max_duration_s is at most {MAX_DURATION_S}")));
        }
        let lines = lines.map(|(at, text)| {
            let line: Line = serde_json::from_str(text).map_err(|error| of_json(at + 1, "", &error))?;
            let is_in_range = line.at().is_none_or(is_usual);
            ensure!(is_in_range, wrong(at + 1, "`at` is not between the years 1970 and 9999"));
            Ok(line)
        });
        Ok(Self { header, lines: lines.collect::<Result<_, _>>()? })
    }
}

/// Refuses what would take too much memory, before anything is parsed.
fn check_sizes(text: &str) -> Result<(), InvalidTrace> {
    for (at, line) in text.split('\n').enumerate() {
        ensure!(at < MAX_LINES, wrong(at + 1, format!("a trace has at most {MAX_LINES} lines")));
        if line.len() > MAX_LINE_BYTES {
            let given = line.len();
            return Err(wrong(at + 1, format!("has {given} bytes; a line has at most {MAX_LINE_BYTES}")));
        }
    }
    Ok(())
}

fn check_footer(
    body: &str,
    parsed: Result<Tagged<Footer>, serde_json::Error>,
    count: usize,
) -> Result<(), InvalidTrace> {
    let footer = parsed.map_err(|error| of_json(count, "the footer is missing or cut off: ", &error))?;
    let Tagged { kind, value: Footer { lines, sha256: digest } } = footer;
    if kind == "footer" && lines == count && digest == hex::encode(Sha256::digest(body)) {
        return Ok(());
    }
    let counted = if lines == count { String::new() } else { format!(" (it counts {lines} lines)") };
    let reason = "the digest is not that of the lines before it: the trace was changed, or a part is missing";
    Err(wrong(count, format!("{reason}{counted}")))
}

/// Whether times can be added to it.
fn is_usual(at: DateTime<Utc>) -> bool {
    let last = DateTime::UNIX_EPOCH + TimeDelta::seconds(LAST_SECOND);
    (DateTime::UNIX_EPOCH..=last).contains(&at)
}

fn json_line(kind: &str, value: &impl Serialize) -> Value {
    serde_json::to_value(Tagged { kind: kind.to_owned(), value }).unwrap_or_default()
}

#[cfg(test)]
mod tests;
