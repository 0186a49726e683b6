//! [`Outcome`]: how a script ended, with a text that a model can act on.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A script that has run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub outcome: Outcome,
    pub console: Console,
    /// How many tools it called.
    pub calls: usize,
}

/// How a script ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// What it returned, as JSON; `null` for nothing, a function or a symbol.
    Value(Value),
    /// It threw this and did not catch it.
    Thrown(Fault),
    /// It is not valid code, or too long. Nothing of it ran.
    Invalid(Fault),
    /// It ran longer than this.
    TimedOut(Duration),
    /// It needed more memory than this many bytes. Also a script that throws `null`, which is what QuickJS does when not even
    /// an error fits.
    OutOfMemory(usize),
    /// It waits for a promise that nothing will settle.
    Stuck,
    /// Its result has more than this many bytes as JSON.
    TooLarge { bytes: usize, limit: usize },
    /// Its process died by this signal, or without one: it was nested too deeply or too large for a parser, or it tried
    /// something that is forbidden.
    Died { signal: Option<i32> },
}

/// An error of a script.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fault {
    /// `TypeError: x is not a function`.
    pub message: String,
    /// From 1, in the code as it was given. Absent if unknown, and for errors thrown by TypeScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// From 1, in characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What may help; absent for most errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}

/// What a script wrote to its console.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Console {
    pub lines: Vec<Line>,
    /// Whether it wrote more than its limit.
    pub cut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub level: Level,
    /// May contain line breaks.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Debug,
    Log,
    Info,
    Warn,
    Error,
}

impl Outcome {
    /// Whether the script returned.
    #[must_use]
    pub fn is_value(&self) -> bool {
        matches!(self, Self::Value(_))
    }

    /// The value as JSON, or what went wrong and what to do about it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Value(value) => value.to_string(),
            Self::Thrown(fault) => format!("The code threw an error. {}", fault.text()),
            Self::Invalid(fault) => format!("The code was not run. {}", fault.text()),
            Self::TimedOut(limit) => format!(
                "The code was stopped after {} s. Look for a loop that does not end, or do less at once.",
                limit.as_secs_f64()
            ),
            Self::OutOfMemory(limit) => format!(
                "The code ran out of memory: it may use {} MiB. Keep less at once, for example process items one by one.",
                limit >> 20
            ),
            Self::Stuck => {
                "The code waits for a promise that nothing resolves. Await only tools, timers and promises \
                that your code settles."
                    .to_owned()
            }
            Self::TooLarge { bytes, limit } => format!(
                "The result is too large: {bytes} bytes as JSON, and {limit} are allowed. Return a summary or a part."
            ),
            Self::Died { .. } => {
                "The code was stopped: it is nested too deeply or too large to be processed, or did \
                something that is not allowed. Use flatter data and simpler code."
                    .to_owned()
            }
        }
    }
}

impl Fault {
    /// The message with its position and hint.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        if let Some(line) = self.line {
            let _ = write!(text, " (line {line}");
            if let Some(column) = self.column {
                let _ = write!(text, ", column {column}");
            }
            text.push(')');
        }
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\nHint: {hint}");
        }
        text
    }
}

impl Console {
    /// The lines as a model reads them, with a last line if there was more.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            match line.level {
                Level::Warn => text.push_str("warning: "),
                Level::Error => text.push_str("error: "),
                Level::Debug | Level::Log | Level::Info => {}
            }
            text.push_str(&line.text);
            text.push('\n');
        }
        if self.cut {
            text.push_str("[the console had more, which was cut]\n");
        }
        text
    }
}
