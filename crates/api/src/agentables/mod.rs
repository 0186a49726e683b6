//! `/v1/{kinds}`: what all agentables have in common.

pub(crate) mod get;

use houston_domain::id::{AgentableId, RunId, UserId};
use houston_store::agentable::Agentable;
use serde::{Deserialize, Serialize};

use crate::rfc3339::Time;

/// An agentable as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) user_id: UserId,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) status: Option<String>,
    /// Its open run, or the latest one.
    pub(crate) run_id: Option<RunId>,
    pub(crate) created_at: Time,
}

impl From<Agentable> for Shown {
    fn from(agentable: Agentable) -> Self {
        Self {
            id: AgentableId::shown(agentable.id, &agentable.kind),
            user_id: agentable.user,
            title: agentable.title,
            description: agentable.description,
            status: agentable.status,
            run_id: agentable.run,
            created_at: Time(agentable.created_at),
        }
    }
}
