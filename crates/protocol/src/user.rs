//! Users: the people agents work for.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use houston_domain::id::UserId;
use houston_domain::knowledge::Profile;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::agentable::nullable;
use crate::schema;
use crate::time::Time;

/// A user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserResponse {
    #[schema(value_type = schema::UserId)]
    pub id: UserId,
    /// The client's own id of the user, unique in the tenant.
    pub external_id: Option<String>,
    pub name: String,
    /// An IANA name, as `Europe/Berlin`.
    pub time_zone: String,
    /// What all their model calls cost in US dollars, as far as that is known; null when nothing is.
    #[serde(default)]
    #[schema(value_type = Option<schema::Decimal>)]
    pub total_llm_cost: Option<Decimal>,
    /// Model calls whose cost is not known.
    #[serde(default)]
    pub unpriced_calls: i32,
    /// The agentables that were made with the user, by kind: `"user_agent_id": "user_agent_0190…"`.
    #[serde(flatten)]
    pub made_with_user: BTreeMap<String, String>,
    #[schema(value_type = schema::Time)]
    pub created_at: Time,
}

/// Creates a user: `{"name": "Ada", "time_zone": "Europe/London"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// 1 to 200 characters.
    pub name: String,
    /// The client's own id of the user: 1 to 255 characters, unique in the tenant.
    pub external_id: Option<String>,
    /// An IANA name, as `Europe/Berlin`; `UTC`, if not given.
    pub time_zone: Option<String>,
}

/// Changes a user: what is given changes, the rest stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateUser {
    /// 1 to 200 characters.
    pub name: Option<String>,
    /// An IANA name, as `Europe/Berlin`.
    pub time_zone: Option<String>,
    /// 1 to 255 characters; null takes it away.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub external_id: Option<Option<String>>,
}

/// What a user's model calls cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserCostsResponse {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    /// In US dollars, as far as that is known; null when nothing is.
    #[schema(value_type = Option<schema::Decimal>)]
    pub total_llm_cost: Option<Decimal>,
    /// Model calls whose cost is not known.
    pub unpriced_calls: i32,
    /// Those of the last 32 days on which models were called, newest first.
    pub days: Vec<DayCostResponse>,
}

/// What a user's model calls cost on one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DayCostResponse {
    /// UTC.
    #[schema(value_type = String, format = Date)]
    pub day: NaiveDate,
    #[schema(value_type = Option<schema::Decimal>)]
    pub cost: Option<Decimal>,
    pub unpriced_calls: i32,
    pub model_calls: i32,
}

/// What is known of a user, in lists of short sentences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProfileResponse {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[serde(flatten)]
    #[schema(value_type = schema::ProfileLists)]
    pub profile: Profile,
    /// Null until somebody writes it.
    #[schema(value_type = Option<schema::Time>)]
    pub updated_at: Option<Time>,
}

/// Changes a profile: each list that is given replaces the one there was. 50 entries of 500 bytes at most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateProfile {
    /// Who they are.
    pub facts: Option<Vec<String>>,
    /// How they like things.
    pub preferences: Option<Vec<String>>,
    /// How they want to be talked with.
    pub communication_style: Option<Vec<String>>,
    /// What they care about.
    pub interests: Option<Vec<String>>,
    /// What they want to reach.
    pub aims: Option<Vec<String>>,
}
