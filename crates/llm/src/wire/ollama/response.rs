//! The shapes of an answer. A line of a stream and an answer in one piece are the same.

use houston_domain::model::{StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(default)]
    pub(super) done: bool,
    #[serde(default)]
    pub(super) done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
    #[serde(default)]
    eval_count: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default)]
    pub(super) content: Option<String>,
    #[serde(default)]
    pub(super) thinking: Option<String>,
    #[serde(default, borrow)]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
}

/// A tool call, whole.
#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(borrow)]
    pub(super) function: Function<'a>,
}

#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl Function<'_> {
    /// The arguments' JSON; some servers put it inside a JSON text.
    pub(super) fn json(&self) -> String {
        let json = self.arguments.map_or("{}", RawValue::get);
        serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())
    }
}

impl Line<'_> {
    /// In our terms.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_eval_count.unwrap_or_default(),
            output_tokens: self.eval_count.unwrap_or_default(),
            ..Usage::default()
        }
    }

    /// Why it stopped.
    pub(super) fn stop(&self) -> StopReason {
        match self.done_reason.as_deref() {
            Some("length") => StopReason::MaxTokens,
            _ => StopReason::EndTurn,
        }
    }
}
