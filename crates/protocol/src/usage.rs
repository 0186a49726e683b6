//! What the runs of a tenant cost.

use chrono::NaiveDate;
use houston_domain::id::{AgentId, UserId};
pub use houston_domain::usage::Spent;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// What the runs took that ended within a window, by user, agent, model and day: the 50 of each that cost most, those first; days
/// in their order.
///
/// ```json
/// {"window_h": 24, "total": {"runs": 3, …}, "users": [{"user_id": "user_0190…", "name": "Ada", "runs": 3, …}],
///  "agents": [{"kind": "goal", "agent_id": null, "name": null, …}], "models": [{"model": "openai/gpt-5", …}],
///  "days": [{"day": "2026-11-22", …}], "budgets": {"per_run": null, "per_agentable": null, "per_user_day": "10"}, "capped": false}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageResponse {
    /// Hours that were looked at.
    pub window_h: u32,
    pub total: Spent,
    pub users: Vec<UserSpent>,
    pub agents: Vec<AgentSpent>,
    /// By the model that was called.
    pub models: Vec<ModelSpent>,
    pub days: Vec<DaySpent>,
    pub budgets: Budgets,
    /// Whether more runs have ended than were read: the latest 20,000.
    pub capped: bool,
}

/// What may be spent, in US dollars; null: without a limit.
///
/// ```json
/// {"per_run": "2.5", "per_agentable": null, "per_user_day": "10"}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budgets {
    /// For one run, with all its attempts.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub per_run: Option<Decimal>,
    /// For one agentable, with all its runs.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub per_agentable: Option<Decimal>,
    /// For one user and one day, UTC.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub per_user_day: Option<Decimal>,
}

/// Of the agentables of a user: `{"user_id": "user_0190…", "name": "Ada", "today": "0.0123", "runs": 3, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserSpent {
    pub user_id: UserId,
    /// Empty for keys without the scope `read`.
    pub name: String,
    /// Cost in US dollars of today's model calls (UTC), also of open runs: what the budget of the day is compared with.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub today: Option<Decimal>,
    #[serde(flatten)]
    pub spent: Spent,
}

/// Of the agentables of an agent: `{"kind": "goal", "agent_id": "agent_0190…", "name": "Scout", "runs": 3, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentSpent {
    pub kind: String,
    /// Null: the default agent of the kind, or a team.
    pub agent_id: Option<AgentId>,
    pub name: Option<String>,
    #[serde(flatten)]
    pub spent: Spent,
}

/// Of the runs of a model: `{"model": "openai/gpt-5", "runs": 3, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelSpent {
    /// As `provider/model`; empty: no model has answered.
    pub model: String,
    #[serde(flatten)]
    pub spent: Spent,
}

/// Of the runs that ended on a day, UTC: `{"day": "2026-11-22", "runs": 3, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DaySpent {
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = Date))]
    pub day: NaiveDate,
    #[serde(flatten)]
    pub spent: Spent,
}
