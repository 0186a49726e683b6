//! Runs: one orchestrator execution each, over crashes and hand-overs.

use houston_domain::id::RunId;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::owner::Owner;
use crate::schema;
use crate::time::Time;

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunResponse {
    #[schema(value_type = schema::RunId)]
    pub id: RunId,
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub owner: Owner,
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    /// From 1.
    pub attempt: i32,
    /// Model calls.
    pub iterations: i32,
    #[schema(value_type = schema::Usage)]
    pub usage: Usage,
    /// What its model calls cost in US dollars, as far as that is known; null when nothing is, which is not 0.
    #[schema(value_type = Option<schema::Decimal>)]
    pub cost: Option<Decimal>,
    /// Model calls whose cost is not known.
    pub unpriced_calls: i32,
    /// The model that answered last, as `provider/model`.
    pub model: Option<String>,
    /// Why it failed, or is tried again.
    pub error: Option<RunError>,
    /// What cut the run off, once it is over; null: its agent was done.
    pub stop_reason: Option<String>,
    /// Whether it was asked to stop.
    pub cancel_requested: bool,
    /// `user`, `interrupt`, `rollback`, or what ended the run.
    pub cancelled_by: Option<String>,
    /// When the next attempt is due.
    #[schema(value_type = Option<schema::Time>)]
    pub retry_at: Option<Time>,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
    #[schema(value_type = Option<schema::Time>)]
    pub started_at: Option<Time>,
    #[schema(value_type = Option<schema::Time>)]
    pub ended_at: Option<Time>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunError {
    /// A model error code, as `RATE_LIMITED`.
    pub code: String,
    /// The same for a person.
    pub message: Option<String>,
}

/// The model calls of a run. Calls whose answer was lost with their worker are not among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelCallsResponse {
    pub data: Vec<ModelCallResponse>,
}

/// One model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelCallResponse {
    /// From 1.
    pub iteration: u32,
    pub provider: String,
    pub model: String,
    #[schema(value_type = schema::Usage)]
    pub usage: Usage,
    /// In US dollars; null when nobody knows.
    #[schema(value_type = Option<schema::Decimal>)]
    pub cost: Option<Decimal>,
    /// `provider` when it said so itself, `list` when its list of prices says so.
    pub cost_source: Option<String>,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
}

/// The runs that were asked to stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CancelledRunsResponse {
    pub data: Vec<CancelledRunResponse>,
}

/// A run that was asked to stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CancelledRunResponse {
    #[schema(value_type = schema::RunId)]
    pub run_id: RunId,
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub owner: Owner,
}
