//! Runs: one execution each, across crashes and hand-overs.

use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::time::Time;

/// A run.
///
/// ```json
/// {"id": "run_0190…", "goal_id": "goal_0190…", "status": "message_sent", "attempt": 1, "iterations": 2,
///  "usage": {"input_tokens": 900, "output_tokens": 40}, "cost": "0.0012", "unpriced_calls": 0, "model": "openai/gpt-5",
///  "error": null, "stop_reason": null, "cancel_requested": false, "cancelled_by": null, "retry_at": null, "waits_until": null,
///  "created_at": "2026-11-22T09:00:00.000Z", "started_at": "2026-11-22T09:00:00.020Z", "ended_at": "2026-11-22T09:00:07.120Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunResponse {
    pub id: RunId,
    #[serde(flatten)]
    // Null is allowed for the nullable fields that lists of runs add.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, Option<String>>))]
    pub owner: Owner,
    pub status: RunStatus,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Number of model calls.
    pub iterations: i32,
    /// Tokens of its model calls.
    pub usage: Usage,
    /// Known cost of its model calls, in US dollars; null if no cost is known, which is not 0.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// Model calls whose cost is unknown.
    pub unpriced_calls: i32,
    /// The model that answered last, as `provider/model`.
    pub model: Option<String>,
    /// Why it failed or is retried.
    pub error: Option<RunError>,
    /// What stopped the run, once it has ended; null if its agent had finished.
    pub stop_reason: Option<String>,
    /// Whether its cancellation was requested.
    pub cancel_requested: bool,
    /// `user`, `interrupt`, `rollback`, or what else ended the run.
    pub cancelled_by: Option<String>,
    /// When the next attempt is due.
    pub retry_at: Option<Time>,
    /// When a run that waits for something else goes on by itself; null: it does not.
    pub waits_until: Option<Time>,
    pub created_at: Time,
    /// When a worker first claimed it.
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
}

/// Why a run failed: `{"code": "RATE_LIMITED", "message": "openai: slow down (HTTP 429)"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunError {
    /// A model error code, as in `RATE_LIMITED`.
    pub code: String,
    /// The error for people.
    pub message: Option<String>,
}

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
    pub data: Vec<CancelledRunResponse>,
}

/// A run whose cancellation was requested: `{"run_id": "run_0190…", "goal_id": "goal_0190…"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelledRunResponse {
    pub run_id: RunId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub owner: Owner,
}
