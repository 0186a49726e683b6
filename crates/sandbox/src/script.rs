//! [`Script`]: what is to be run, and its [`Limits`]; and [`Host`], which answers its tool calls.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest code, in characters.
pub const MAX_CODE: usize = 50_000;
/// The longest time a script may be given.
pub const MAX_TIME: Duration = Duration::from_secs(30);

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// ECMAScript 2023 and later additions, as QuickJS-ng has them. Always strict.
    #[default]
    JavaScript,
    /// Types are removed, enums and parameter properties become code. Nothing is checked.
    TypeScript,
}

/// A script: the body of an async function, so `await` and `return` may be at its top level.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// At most [`MAX_CODE`] characters.
    pub code: String,
    pub language: Language,
    /// The tools it may call, as `await tools.<name>(input)`.
    pub tools: Vec<String>,
    /// The time the script sees when it begins, in milliseconds since 1970. The same in every replay.
    pub now_ms: i64,
    /// What its random numbers follow from. The same in every replay.
    pub seed: u64,
    pub limits: Limits,
}

impl Script {
    /// JavaScript without tools, at the beginning of 1970, with the default limits.
    pub fn new(code: &str) -> Self {
        Self {
            code: code.to_owned(),
            language: Language::JavaScript,
            tools: Vec::new(),
            now_ms: 0,
            seed: 0,
            limits: Limits::default(),
        }
    }
}

/// What a script may use.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    /// How much processor time it may use; on a busy machine that takes up to six times as long. More than [`MAX_TIME`] counts
    /// as that.
    pub time: Duration,
    /// Bytes of the interpreter's heap, from 1 to 64 MiB.
    pub memory: usize,
    /// Bytes of console output, without the marks of warnings and errors. More is cut, and a last line says so.
    pub console: usize,
    /// Bytes of the result as JSON, and of the input of each call.
    pub output: usize,
    /// How many tools it may call.
    pub calls: usize,
}

impl Limits {
    pub(crate) const MAX_MEMORY: usize = 64 << 20;
    const MAX_CONSOLE: usize = 1 << 20;
    const MAX_OUTPUT: usize = 4 << 20;
    const MAX_CALLS: usize = 10_000;

    /// Less is not enough for the interpreter itself, and none would mean no limit.
    const MIN_MEMORY: usize = 1 << 20;

    /// These limits, each at most what the parent can bear.
    pub(crate) fn clamped(self) -> Self {
        Self {
            time: self.time.min(MAX_TIME),
            memory: self.memory.clamp(Self::MIN_MEMORY, Self::MAX_MEMORY),
            console: self.console.min(Self::MAX_CONSOLE),
            output: self.output.min(Self::MAX_OUTPUT),
            calls: self.calls.min(Self::MAX_CALLS),
        }
    }
}

impl Default for Limits {
    /// 5 s, 64 MiB, 64 KiB of console, 256 KiB of output, 1000 calls.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(5),
            memory: Self::MAX_MEMORY,
            console: 64 << 10,
            output: 256 << 10,
            calls: 1000,
        }
    }
}

/// A call that a script makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its position among all calls of the script, from 1. The same in every replay.
    pub number: usize,
    /// One of [`crate::Script::tools`].
    pub tool: String,
    pub input: Value,
}

/// The answer to a call: a value, or the message of the error that is thrown at the call.
pub type Answer = Result<Value, String>;

/// Answers the calls of a script.
pub trait Host: Send {
    /// Answers `calls`, which the script has made at once, with one answer each in the same order. The script's time does
    /// not run meanwhile.
    ///
    /// # Errors
    ///
    /// An error ends the script, and is the reason in [`crate::Error::Stopped`].
    fn answer(&mut self, calls: Vec<Call>) -> impl Future<Output = Result<Vec<Answer>, String>> + Send;
}

/// For a script without tools: refuses every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

impl Host for NoTools {
    async fn answer(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, String> {
        Ok(calls.iter().map(|_| Err("there are no tools".to_owned())).collect())
    }
}
