//! The types of an answer. A line of a stream and a complete answer have the same form.

use houston_domain::model::{ModelError, StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::fields::{Arguments, Count, Pieces, lenient, text};
use super::super::{AnswerEnd, finish_reason};

/// A line of a stream, or a complete answer.
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
    #[serde(default)]
    pub(super) tool_calls: Pieces<Call>,
}

/// A complete tool call.
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
    /// Converts to Houston's [`Usage`].
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_eval_count.or_zero(),
            output_tokens: self.eval_count.or_zero(),
            ..Usage::default()
        }
    }

    /// Maps the finish reason.
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
