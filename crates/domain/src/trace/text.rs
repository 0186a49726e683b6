//! Traces as text: lines of JSON, the last of which has the digest of those before it.

use std::fmt::Write as _;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{FORMAT, Header, Line, Trace, VERSION};
use crate::redaction::without_keys;

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

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn wrong(line: usize, reason: impl Into<String>) -> InvalidTrace {
    InvalidTrace { line, reason: reason.into() }
}

/// What the parser says, without its own count of lines, and not longer than people read.
fn of_json(line: usize, error: &serde_json::Error) -> InvalidTrace {
    let text = error.to_string().replace(" at line 1 column ", " at column ");
    let mut reason: String = text.chars().take(MAX_REASON).collect();
    if reason.len() < text.len() {
        reason.push('…');
    }
    wrong(line, reason)
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
        let footer = Footer { lines: self.lines.len() + 2, sha256: sha256(text.as_bytes()) };
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
        let header: Tagged<Header> = serde_json::from_str(first).map_err(|error| {
            let InvalidTrace { line, reason } = of_json(1, &error);
            wrong(line, format!("no header: {reason}"))
        })?;
        let Tagged { kind, value: header } = header;
        if kind != "header" || header.format != FORMAT || header.version != VERSION {
            let given: String = format!("{} {}", header.format, header.version).chars().take(80).collect();
            return Err(wrong(1, format!("`{given}` cannot be read; this version reads {FORMAT} {VERSION}")));
        }
        if header.limits.max_duration_s > MAX_DURATION_S {
            return Err(wrong(1, format!("limits.max_duration_s is at most {MAX_DURATION_S}")));
        }
        let lines = lines.map(|(at, text)| {
            let line: Line = serde_json::from_str(text).map_err(|error| of_json(at + 1, &error))?;
            match line.at().is_none_or(is_usual) {
                true => Ok(line),
                false => Err(wrong(at + 1, "`at` is not between the years 1970 and 9999")),
            }
        });
        Ok(Self { header, lines: lines.collect::<Result<_, _>>()? })
    }
}

/// Refuses what would take too much memory, before anything is parsed.
fn check_sizes(text: &str) -> Result<(), InvalidTrace> {
    for (at, line) in text.split('\n').enumerate() {
        if at >= MAX_LINES {
            return Err(wrong(at + 1, format!("a trace has at most {MAX_LINES} lines")));
        }
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
    let footer = parsed.map_err(|error| {
        let InvalidTrace { line, reason } = of_json(count, &error);
        wrong(line, format!("the footer is missing or cut off: {reason}"))
    })?;
    let Tagged { kind, value: Footer { lines, sha256: digest } } = footer;
    if kind == "footer" && lines == count && digest == sha256(body.as_bytes()) {
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

/// The value with all its texts redacted, names of fields too: a tool may answer with an object that has keys as names.
fn redacted(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_keys(&text)),
        Value::Array(values) => values.into_iter().map(redacted).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (without_keys(&name), redacted(value))).collect()
        }
        other => other,
    }
}
