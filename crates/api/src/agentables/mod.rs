//! `/v1/{kinds}`: what all agentables have in common.

pub(crate) mod archive;
pub(crate) mod cancel;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod get;
pub(crate) mod list;
mod serving;
pub(crate) mod tasks;
pub(crate) mod tools;

use houston_domain::agentable::AgentType;
use houston_domain::id::{AgentId, AgentableId, RunId, TeamId, UserId};
use houston_store::agentable::Agentable;
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::rfc3339::Time;

/// An agentable as clients see it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) user_id: UserId,
    /// What it works for; of a task alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent_id: Option<String>,
    pub(crate) title: String,
    pub(crate) description: String,
    /// How it stands, by its run and by what somebody decided.
    pub(crate) status: Option<String>,
    /// Its open run, or the latest one.
    pub(crate) run_id: Option<RunId>,
    /// The agent that answers, or the team; neither: the default agent of its kind.
    pub(crate) agent_id: Option<AgentId>,
    pub(crate) team_id: Option<TeamId>,
    /// The tools it may call, of those of its kind; null: all of them. Answers kept by older Houstons have none.
    #[serde(default)]
    pub(crate) tools: Option<Vec<String>>,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    pub(crate) created_at: Time,
}

impl Shown {
    /// `agentable`, whose kind is `kind`; of a kind nobody knows here, the stored status is shown.
    pub(crate) fn new(agentable: Agentable, kind: Option<&AgentType>) -> Self {
        let stored = agentable.status;
        let status = match kind {
            Some(kind) => kind.status(stored.as_deref(), agentable.run_status),
            None => stored,
        };
        Self {
            id: AgentableId::shown(agentable.id, &agentable.kind),
            user_id: agentable.user,
            parent_id: agentable.parent.map(|(kind, id)| id.shown(&kind)),
            title: agentable.title,
            description: agentable.description,
            status,
            run_id: agentable.run,
            agent_id: agentable.served_by.agent,
            team_id: agentable.served_by.team,
            tools: agentable.tools,
            cost: agentable.cost.into(),
            created_at: Time(agentable.created_at),
        }
    }
}
