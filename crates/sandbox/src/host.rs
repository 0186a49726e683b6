//! [`Host`]: who answers the tool calls of a script.

use serde_json::Value;

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
