//! `/v1/users`: the people agents work for.

pub(crate) mod costs;
pub(crate) mod create;
pub(crate) mod get;

use std::collections::BTreeMap;

use houston_domain::id::{AgentableId, UserId};
use houston_store::user::User;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::rfc3339::Time;

/// A user as clients see it.
#[derive(Debug, Serialize, Deserialize)]
struct Shown {
    id: UserId,
    external_id: Option<String>,
    name: String,
    time_zone: String,
    /// What all their model calls cost, in US dollars; null when nothing of it is known.
    #[serde(default)]
    total_llm_cost: Option<Decimal>,
    /// Model calls whose cost nobody knows.
    #[serde(default)]
    unpriced_calls: i32,
    /// What was made with them, under its kind: `"user_agent_id": "user_agent_…"`.
    #[serde(flatten)]
    own: BTreeMap<String, String>,
    created_at: Time,
}

impl Shown {
    fn new<'k>(user: User, own: impl IntoIterator<Item = (&'k str, AgentableId)>) -> Self {
        let own = own.into_iter().map(|(kind, id)| (format!("{kind}_id"), id.shown(kind))).collect();
        Self {
            id: user.id,
            external_id: user.external_id,
            name: user.name,
            time_zone: user.time_zone,
            total_llm_cost: user.cost.known.map(|cost| cost.normalize()),
            unpriced_calls: user.cost.unpriced_calls,
            own,
            created_at: Time(user.created_at),
        }
    }
}
