//! `/v1/users`: the people agents work for.

pub(crate) mod costs;
pub(crate) mod create;
pub(crate) mod get;

use houston_domain::id::{AgentableId, UserId};
use houston_store::user::User;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::rfc3339::Time;

/// A user as clients see it. The user agent's id is a text, since it is shown under its kind.
#[derive(Debug, Serialize, Deserialize)]
struct Shown {
    id: UserId,
    external_id: Option<String>,
    name: String,
    time_zone: String,
    user_agent_id: String,
    /// What all their model calls cost, in US dollars; null when nothing of it is known.
    #[serde(default)]
    total_llm_cost: Option<Decimal>,
    /// Model calls whose cost nobody knows.
    #[serde(default)]
    unpriced_calls: i32,
    created_at: Time,
}

impl Shown {
    fn new(user: User, agent: AgentableId) -> Self {
        Self {
            id: user.id,
            external_id: user.external_id,
            name: user.name,
            time_zone: user.time_zone,
            user_agent_id: agent.shown(USER_AGENT),
            total_llm_cost: user.cost.known.map(|cost| cost.normalize()),
            unpriced_calls: user.cost.unpriced_calls,
            created_at: Time(user.created_at),
        }
    }
}

/// The kind of the one agentable that is made with a user.
const USER_AGENT: &str = "user_agent";
