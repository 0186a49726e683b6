//! How runs and tasks end.

use std::borrow::Cow;

use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Which of Houston's many ways to end a run it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunResult<'a> {
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    /// Who asked, of a cancelled one; after `rollback`, its messages are rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub cancelled_by: Option<Cow<'a, str>>,
    /// What cut it off (a stop rule, `content_filter`, who cancelled it); left out when its agent was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Cow<'a, str>>,
    /// What it cost in US dollars, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Decimal>)]
    pub cost: Option<Decimal>,
}

/// How a run ended that did not fail: `{"type": "success"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Outcome {
    Success,
    Cancelled,
}

/// How a task's part in a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SubagentOutcome {
    /// It is done.
    Success,
    /// It works on, beyond this run.
    Suspended,
}

/// Tokens of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub total_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_input_tokens: u64,
}

fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl TokenUsage {
    /// The usage of a run; `None` when no model was called.
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
