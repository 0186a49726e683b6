//! Runs: one execution each, across crashes and hand-overs.

use houston_domain::model::Usage;
use houston_domain::run::CancelledRun;
pub use houston_domain::run::{Run as RunResponse, RunError};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The model calls of a run, however they ended: `{"data": […]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelCallsResponse {
    pub data: Vec<ModelCallResponse>,
}

/// One model call.
///
/// ```json
/// {"iteration": 1, "provider": "openai", "model": "gpt-5", "usage": {"input_tokens": 900, "output_tokens": 40},
///  "cost": "0.0012", "cost_source": "list", "created_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelCallResponse {
    /// Number of the iteration, from 1.
    pub iteration: u32,
    pub provider: String,
    pub model: String,
    /// Tokens of the call.
    pub usage: Usage,
    /// Cost in US dollars; null if unknown.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// `provider` if the provider reported it, `list` if it was computed from the price list.
    pub cost_source: Option<String>,
    /// Whether tokens are estimated, because the answer was cut off before the provider reported them: cancelled, broken off, or
    /// lost with its worker.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    pub created_at: Time,
}

/// The runs whose cancellation was requested: `{"data": [{"run_id": "run_0190…", "goal_id": "goal_0190…"}]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelledRunsResponse {
    pub data: Vec<CancelledRun>,
}
