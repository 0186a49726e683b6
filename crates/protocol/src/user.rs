//! Users: the people that agents work for.

use std::collections::BTreeMap;

use houston_domain::budget::DayCost;
use houston_domain::id::UserId;
use houston_domain::profile::Profile;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::field::nullable;
use crate::time::Time;

/// A user.
///
/// ```json
/// {"id": "user_0190…", "external_id": "42", "name": "Ada", "time_zone": "Europe/London", "total_llm_cost": "0.0123",
///  "unpriced_calls": 0, "user_agent_id": "user_agent_0190…", "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserResponse {
    pub id: UserId,
    /// The client's own id of the user, unique in the tenant.
    pub external_id: Option<String>,
    pub name: String,
    /// An IANA name, as in `Europe/Berlin`.
    pub time_zone: String,
    /// Known cost of all their model calls, in US dollars; null if no cost is known.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub total_llm_cost: Option<Decimal>,
    /// Model calls whose cost is unknown.
    #[serde(default)]
    pub unpriced_calls: i32,
    /// The agentables that were created with the user, by kind: `"user_agent_id": "user_agent_0190…"`.
    #[serde(flatten)]
    pub made_with_user: BTreeMap<String, String>,
    pub created_at: Time,
}

/// Creates a user: `{"name": "Ada", "time_zone": "Europe/London"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// 1 to 200 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub name: String,
    /// The client's own id of the user: 1 to 255 characters, unique in the tenant.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub external_id: Option<String>,
    /// An IANA name, as in `Europe/Berlin`; `UTC` if absent.
    pub time_zone: Option<String>,
}

/// Changes a user: given fields are set, others stay. `{"name": "Ada", "external_id": null}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateUser {
    /// 1 to 200 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub name: Option<String>,
    /// An IANA name, as in `Europe/Berlin`.
    pub time_zone: Option<String>,
    /// 1 to 255 characters; null removes it.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 255))]
    pub external_id: Option<Option<String>>,
}

/// The cost of a user's model calls.
///
/// ```json
/// {"user_id": "user_0190…", "total_llm_cost": "0.0123", "unpriced_calls": 0,
///  "days": [{"day": "2026-11-22", "cost": "0.0123", "unpriced_calls": 0, "model_calls": 4}]}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserCostsResponse {
    pub user_id: UserId,
    /// Known cost in US dollars; null if no cost is known.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub total_llm_cost: Option<Decimal>,
    /// Model calls whose cost is unknown.
    pub unpriced_calls: i32,
    /// The days with model calls among the last 32 days, newest first.
    pub days: Vec<DayCost>,
}

/// What is known about a user, in lists of short sentences.
///
/// ```json
/// {"user_id": "user_0190…", "facts": ["lives in Graz"], "preferences": [], "communication_style": [], "interests": [],
///  "aims": [], "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProfileResponse {
    pub user_id: UserId,
    #[serde(flatten)]
    pub profile: Profile,
    /// Null if the profile was never written.
    pub updated_at: Option<Time>,
}

/// Changes a profile: each given list replaces the existing one. At most 50 entries (`knowledge.max_profile_entries`) of 500 bytes each.
///
/// ```json
/// {"facts": ["lives in Graz"], "interests": []}
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateProfile {
    /// Who the user is.
    pub facts: Option<Vec<String>>,
    /// How they like things done.
    pub preferences: Option<Vec<String>>,
    /// How they want to be addressed.
    pub communication_style: Option<Vec<String>>,
    /// What they care about.
    pub interests: Option<Vec<String>>,
    /// What they want to achieve.
    pub aims: Option<Vec<String>>,
}
