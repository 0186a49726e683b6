//! Which agent answers for an agentable: the stored choice, and its resolution for a run (statement `store::run_context`).

use houston_domain::agent_settings::AgentSettings;
use houston_domain::answering::Output;
use houston_domain::id::{AgentId, AgentableId, TeamId, TenantId};
use houston_domain::team::Router;
use serde::Deserialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::statement::Statement as _;

/// The agent or team that answers for an agentable; if neither is set, the default agent of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServedBy {
    /// An agent.
    pub agent: Option<AgentId>,
    /// A team, whose router picks an agent for each run.
    pub team: Option<TeamId>,
}

/// A change of the serving agent or team and of the tools; `None` leaves the value as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServingChange {
    /// The new agent or team.
    pub served_by: Option<ServedBy>,
    /// The tools it may call, out of those of its kind; `Some(None)`: all of them.
    pub tools: Option<Option<Vec<String>>>,
}

/// An agent as a run reads it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ServingAgent {
    /// The agent's id.
    #[serde(skip, default = "nil")]
    pub id: AgentId,
    /// The agent's name.
    pub name: String,
    /// Counts its changes.
    pub version: i64,
    /// Whether it may answer.
    pub enabled: bool,
    /// Whether it has the settings of its kind's file.
    pub follows_file: bool,
    /// Its configuration.
    pub settings: AgentSettings,
    /// The form of the answers of the team that has picked it.
    #[serde(default)]
    pub team_output: Option<Output>,
}

/// A team whose router has not picked an agent for the run yet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ServingTeam {
    /// The team's id.
    #[serde(skip, default = "nil")]
    pub id: TeamId,
    /// The team's name.
    pub name: String,
    /// Counts its changes.
    pub version: i64,
    /// How the team picks an agent.
    pub router: Router,
    /// The form of its answers.
    #[serde(default)]
    pub output: Option<Output>,
    /// Index of the fallback agent in the stored list, from 1.
    fallback: Option<usize>,
    /// Its agents, in the stored order.
    #[serde(skip)]
    pub agents: Vec<ServingAgent>,
}

impl ServingTeam {
    /// The agent that answers when the router picks none: the team's fallback, or else the first enabled agent.
    pub fn fallback(&self) -> Option<&ServingAgent> {
        let stored = self.fallback.and_then(|number| self.agents.get(number.checked_sub(1)?));
        stored.filter(|agent| agent.enabled).or_else(|| self.agents.iter().find(|agent| agent.enabled))
    }
}

/// The agent that answers a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Serving {
    /// The agent defined by the file of its kind.
    #[default]
    File,
    /// This agent.
    Agent(Box<ServingAgent>),
    /// This agent, picked by its team's router for this run.
    Routed(Box<ServingAgent>),
    /// A team, whose router has yet to pick.
    Team(Box<ServingTeam>),
    /// A row that this version of Houston cannot decode: which one, and why.
    Unreadable(String),
}

fn nil<Id: From<Uuid>>() -> Id {
    Uuid::nil().into()
}

impl Serving {
    /// The form of the answers of the team.
    pub fn output(&self) -> Option<&Output> {
        match self {
            Self::Team(team) => team.output.as_ref(),
            Self::Routed(agent) => agent.team_output.as_ref(),
            Self::File | Self::Agent(_) | Self::Unreadable(_) => None,
        }
    }

    /// Whether rows of the context query with this `what` are added by [`Self::take`].
    pub(crate) fn is_of(what: &str) -> bool {
        matches!(what, "agent" | "routed" | "team" | "team_agent")
    }

    /// Adds one row of the context query. Rows arrive sorted, `team` before `team_agent`.
    pub(crate) fn take(&mut self, what: &str, id: Uuid, definition: &str) {
        let read = || -> serde_json::Result<ServingAgent> {
            Ok(ServingAgent { id: AgentId(id), ..serde_json::from_str(definition)? })
        };
        let taken = match what {
            "team" => serde_json::from_str::<ServingTeam>(definition)
                .map(|team| *self = Self::Team(Box::new(ServingTeam { id: TeamId(id), ..team }))),
            "team_agent" => read().map(|agent| {
                if let Self::Team(team) = self {
                    team.agents.push(agent);
                }
            }),
            "routed" => read().map(|agent| *self = Self::Routed(Box::new(agent))),
            _ => read().map(|agent| *self = Self::Agent(Box::new(agent))),
        };
        if let Err(error) = taken {
            *self = Self::Unreadable(format!("{what} {id}: {error}"));
        }
    }
}

/// Applies a change, in the caller's transaction.
pub(crate) async fn set(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    change: &ServingChange,
) -> Result<()> {
    let served_by = change.served_by.unwrap_or_default();
    sqlx::query!(
        "-- store::serving::set
        update houston.agentables
           set agent_id = case when $3 then $4 else agent_id end,
               team_id = case when $3 then $5 else team_id end,
               tools = case when $6 then $7 else tools end
         where tenant_id = $1 and id = $2",
        tenant.0,
        agentable.0,
        change.served_by.is_some(),
        served_by.agent.map(|agent| agent.0),
        served_by.team.map(|team| team.0),
        change.tools.is_some(),
        change.tools.as_ref().and_then(Option::as_deref)
    )
    .run(connection)
    .await
    .map_err(|error| match error.sqlstate().as_deref() {
        Some("23503") => Error::NotFound { what: "agent or team" },
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: &str = r#"{"name": "one", "version": 3, "enabled": true, "follows_file": false, "settings": {
        "role": "r", "tools": [], "use_case": "agent", "provider": "default", "model": "default"}}"#;

    fn team(fallback: &str, agents: &[bool]) -> ServingTeam {
        let mut serving = Serving::default();
        let definition =
            format!(r#"{{"name": "t", "version": 1, "router": {{"by": "rules"}}, "fallback": {fallback}}}"#);
        serving.take("team", Uuid::from_u128(9), &definition);
        for (enabled, number) in agents.iter().zip(1..) {
            let agent = AGENT.replace("\"enabled\": true", &format!("\"enabled\": {enabled}"));
            serving.take("team_agent", Uuid::from_u128(number), &agent);
        }
        match serving {
            Serving::Team(team) => *team,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fallback_is_the_named_agent_or_the_first_enabled_one() {
        let of =
            |fallback: &str, agents: &[bool]| team(fallback, agents).fallback().map(|one| one.id.0.as_u128());
        assert_eq!(of("2", &[true, true]), Some(2));
        assert_eq!(of("null", &[true, true]), Some(1));
        assert_eq!(of("2", &[true, false]), Some(1), "a disabled agent never answers");
        assert_eq!(of("2", &[false, false]), None);
    }

    #[test]
    fn undecodable_row_is_reported_without_a_panic() {
        let mut serving = Serving::default();
        serving.take("agent", Uuid::from_u128(1), "{}");
        assert!(matches!(serving, Serving::Unreadable(error) if error.contains("missing field")));
    }
}
