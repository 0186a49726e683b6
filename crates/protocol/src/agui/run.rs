//! How runs and tasks end.

use std::borrow::Cow;

use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Interrupt;
#[cfg(feature = "openapi")]
use crate::schema;

/// How a run ended: the `result` of `RUN_FINISHED`.
///
/// ```json
/// {"status": "cancelled", "cancelled_by": "user", "stop_reason": "user", "cost": "0.0012"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunResult<'a> {
    /// The final status of the run.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::RunStatus))]
    pub status: RunStatus,
    /// For a cancelled run: who requested it. After `rollback`, its messages are rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub cancelled_by: Option<Cow<'a, str>>,
    /// What stopped the run (a stop rule, `content_filter`, who cancelled it); absent if its agent had
    /// finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Cow<'a, str>>,
    /// Known cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// The answer as a value, if a form was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub output: Option<Cow<'a, Value>>,
}

/// The outcome of a run that did not fail: `{"type": "success"}`, `{"type": "cancelled"}`, or what a waiting run needs:
///
/// ```json
/// {"type": "interrupt", "interrupts": [{"id": "question_0190…", "reason": "tool_call", "message": "May I delete all notes?"}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome<'a> {
    Success,
    Cancelled,
    /// The run waits for answers; an AG-UI run with `resume` gives them.
    Interrupt {
        interrupts: Vec<Interrupt<'a>>,
    },
}

impl Outcome<'_> {
    /// Leaves out the calls of the client's own tools; without any other interrupt the run has ended with success.
    pub fn leave_out_client_calls(&mut self) {
        if let Self::Interrupt { interrupts } = self {
            interrupts.retain(|interrupt| !interrupt.is_client_call());
            if interrupts.is_empty() {
                *self = Self::Success;
            }
        }
    }
}

/// The outcome of a task: `{"type": "success"}` or `{"type": "suspended"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SubagentOutcome {
    /// It was completed.
    Success,
    /// It continues beyond this run.
    Suspended,
}

/// Tokens of a run.
///
/// ```json
/// {"inputTokens": 900, "outputTokens": 40, "totalTokens": 940, "cachedInputTokens": 700}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Tokens sent, cached or not.
    pub input_tokens: u64,
    /// Tokens received, including reasoning.
    pub output_tokens: u64,
    /// The sum of input and output tokens.
    pub total_tokens: u64,
    /// Output tokens that were spent on reasoning; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Input tokens that were read from the provider's cache; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Input tokens that were written to the provider's cache; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_input_tokens: u64,
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl TokenUsage {
    /// The usage of a run; `None` if no model was called.
    #[must_use]
    pub fn of(usage: &Usage) -> Option<[Self; 1]> {
        (*usage != Usage::default()).then(|| {
            [Self {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                total_tokens: usage.input_tokens + usage.output_tokens,
                reasoning_tokens: usage.reasoning_tokens,
                cached_input_tokens: usage.cache_read_tokens,
                cache_write_input_tokens: usage.cache_write_tokens,
            }]
        })
    }
}
