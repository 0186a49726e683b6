//! [`Outcome`]: how a script ended, with a text that a model can act on; [`Error`]: what kept it from running.
//!
//! Code that expects another environment gets a hint. It explains an error; nothing is refused because of it.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A script that has run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub outcome: Outcome,
    /// What it wrote to its console, as a model reads it: line by line, warnings and errors marked as such; with a last line if
    /// there was more than its limit.
    pub console: String,
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

impl Outcome {
    /// Whether the script returned.
    pub fn is_value(&self) -> bool {
        matches!(self, Self::Value(_))
    }

    /// The value as JSON, or what went wrong and what to do about it.
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

const NO_MODULES: &str =
    "There are no modules: no require, import or export. Everything must be in this code.";

/// Names that code expects to exist, and what to do instead.
const HINTS: [(&[&str], &str); 8] = [
    (&["require", "module", "exports"], NO_MODULES),
    (&["process"], "There is no `process`. End with `return`; there are no arguments and no environment."),
    (
        &["fetch", "XMLHttpRequest", "WebSocket", "axios", "navigator"],
        "There is no network. Call a tool that reaches it, if one is offered in `tools`.",
    ),
    (&["fs", "path", "os", "Deno", "Bun"], "There are no files and no system."),
    (&["document", "window", "localStorage", "alert", "prompt"], "There is no browser. Use `return`."),
    (&["Buffer"], "There is no Buffer. Use Uint8Array, TextEncoder, TextDecoder, atob and btoa."),
    (&["Intl"], "There is no Intl. Format dates and numbers by hand."),
    (
        &["WebAssembly", "Worker", "SharedArrayBuffer", "Atomics", "WeakRef", "FinalizationRegistry"],
        "There are no threads, no WebAssembly and no weak references.",
    ),
];

/// The hint for a script that failed with `message`.
pub(crate) fn hint(message: &str) -> Option<String> {
    let is_syntax = message.starts_with("SyntaxError");
    if message.contains("could not load module")
        || is_syntax && (message.contains("import") || message.contains("export"))
    {
        return Some(NO_MODULES.to_owned());
    }
    let (before, _) = message.split_once(" is not defined")?;
    let name = before.rsplit(' ').next()?.trim_matches(['\'', '"', '`']);
    HINTS.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| (*hint).to_owned())
}

/// Why nothing was run, or why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot build all walls. Nothing was read by the child. One sentence per wall that is missing.
    #[error("code cannot be run safely on this machine: {}", .0.join("; "))]
    Incomplete(Vec<String>),
    /// The program could not be started.
    #[error("cannot start the sandbox: {0}")]
    Start(#[source] io::Error),
    /// The program that was started is no sandbox: it ended without the first line of the protocol.
    #[error("the program started as sandbox does not answer as one: {0}")]
    NotASandbox(String),
    /// The child wrote something that the protocol does not have. It was killed.
    #[error("the sandbox broke its protocol: {0}")]
    Protocol(String),
    /// [`crate::Host::answer`] ended the run, for this reason. The child was killed.
    #[error("the script was stopped: {0}")]
    Stopped(String),
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn missing_environment_is_explained() {
        let of = |message| hint(message).unwrap_or_default();
        assert!(of("ReferenceError: require is not defined").contains("no modules"));
        assert!(of("ReferenceError: 'process' is not defined").contains("`return`"));
        assert!(of("ReferenceError: fetch is not defined").contains("no network"));
        assert!(of("ReferenceError: could not load module 'os'").contains("no modules"));
    }

    #[test]
    fn unrelated_errors_get_no_hint() {
        assert_eq!(hint("TypeError: cannot read property 'x' of null"), None);
        assert_eq!(hint("ReferenceError: total is not defined"), None);
        assert_eq!(hint("ToolError: the import failed"), None);
    }
}
