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
//! {"type":"footer","lines":9,"sha256":"…"}                         over all bytes before it
//! ```
//!
//! A trace is made from what the run has committed; nothing is stored for it ([`record`]). [`replay`] drives
//! [`AgentRun`](crate::agent::AgentRun) with it and finds the first difference, [`compare`] sets two ways through a task side
//! by side. Texts that look like keys are redacted as in the log.

pub mod compare;
pub mod expectation;
pub mod record;
pub mod replay;

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::agent::RunPolicy;
use crate::agent::limits::Limits;
use crate::agentable::{AgentType, Reply};
use crate::event::Event;
use crate::history::{Block, Entry};
use crate::id::RunId;
use crate::model::{StopReason, Usage};
use crate::overseer;
use crate::redaction::without_keys;
use crate::tool_call::ToolResponse;

/// The name of the format.
pub const FORMAT: &str = "houston.trace";
/// The version that is written.
pub const VERSION: u32 = 1;

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
    /// The limits of the kind when the trace was made.
    pub limits: Limits,
    /// The overseer's settings when the trace was made.
    #[serde(default)]
    pub overseer: overseer::Settings,
    /// Cost in US dollars, if it has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<rust_decimal::Decimal>,
}

impl Header {
    /// The header of a run of this kind; `limits` are those before the kind overrides them.
    #[must_use]
    pub fn of(run: RunId, kind: &AgentType, limits: Limits, overseer: overseer::Settings) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            run,
            kind: kind.kind.clone(),
            conversational: kind.conversational,
            expects_reply: true,
            reply: kind.reply,
            driver: kind.driver.clone(),
            limits: limits.with(kind.limits),
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

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl Trace {
    /// The trace as lines of JSON, with redacted keys.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut add = |line: Value| {
            let _ = writeln!(text, "{}", redacted(line));
        };
        add(json_line("header", &self.header));
        // Lines have string keys only, so they can be written.
        self.lines.iter().for_each(|line| add(serde_json::to_value(line).unwrap_or_default()));
        let footer = Footer { lines: self.lines.len() + 2, sha256: sha256(&text) };
        let _ = writeln!(text, "{}", json_line("footer", &footer));
        text
    }

    /// Parses what [`Self::to_text`] has written.
    ///
    /// # Errors
    /// [`InvalidTrace`] with the line that cannot be read, and when the digest is not that of the lines before it.
    pub fn parse(text: &str) -> Result<Self, InvalidTrace> {
        let wrong = |line: usize, reason: String| InvalidTrace { line, reason };
        let text = text.trim_end_matches('\n');
        let (body, footer) = text.rsplit_once('\n').unwrap_or(("", text));
        let count = body.lines().count() + 1;
        let footer: Tagged<Footer> = serde_json::from_str(footer)
            .map_err(|error| wrong(count, format!("the footer is missing or cut off: {error}")))?;
        let whole = format!("{body}\n");
        if footer.kind != "footer" || footer.value.lines != count || footer.value.sha256 != sha256(&whole) {
            let reason =
                "the digest is not that of the lines before it: the trace was changed, or a part is missing";
            return Err(wrong(count, reason.to_owned()));
        }
        let mut lines = body.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let header: Tagged<Header> =
            serde_json::from_str(first).map_err(|error| wrong(1, format!("no header: {error}")))?;
        let header = header.value;
        if header.format != FORMAT || header.version != VERSION {
            let given = format!("{} {}", header.format, header.version);
            return Err(wrong(1, format!("`{given}` cannot be read; this version reads {FORMAT} {VERSION}")));
        }
        let lines = lines
            .map(|(at, line)| serde_json::from_str(line).map_err(|error| wrong(at + 1, error.to_string())));
        Ok(Self { header, lines: lines.collect::<Result<_, _>>()? })
    }
}

fn json_line(kind: &str, value: &impl Serialize) -> Value {
    serde_json::to_value(Tagged { kind: kind.to_owned(), value }).unwrap_or_default()
}

/// The value with all its texts redacted.
fn redacted(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_keys(&text)),
        Value::Array(values) => values.into_iter().map(redacted).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, redacted(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests;
