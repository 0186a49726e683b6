//! The shapes of an answer. A line of a stream and an answer in one piece are the same.

use houston_domain::model::{ModelError, StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::fields::{Arguments, Count, lenient, null_is_default, text};
use super::super::{AnswerEnd, finish_reason};

/// A line, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) message: Option<Message>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) done: bool,
    #[serde(default, deserialize_with = "text")]
    pub(super) done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: Count,
    #[serde(default)]
    eval_count: Count,
}

#[derive(Deserialize)]
pub(super) struct Message {
    #[serde(default, deserialize_with = "text")]
    pub(super) content: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) thinking: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) tool_calls: Vec<Call>,
}

/// A tool call, whole.
#[derive(Deserialize)]
pub(super) struct Call {
    #[serde(default, deserialize_with = "text")]
    pub(super) id: Option<String>,
    pub(super) function: Function,
}

#[derive(Deserialize)]
pub(super) struct Function {
    #[serde(default, deserialize_with = "text")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
}

impl Line<'_> {
    /// The usage as Houston counts it.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_eval_count.or_zero(),
            output_tokens: self.eval_count.or_zero(),
            ..Usage::default()
        }
    }

    /// Why it stopped.
    ///
    /// # Errors
    /// As [`finish_reason::stop_reason`].
    pub(super) fn stop(&self, end: AnswerEnd) -> Result<StopReason, ModelError> {
        match self.done_reason.as_deref().map(str::trim) {
            None | Some("") => Ok(StopReason::EndTurn),
            Some(reason) => finish_reason::stop_reason(reason, end),
        }
    }
}
