//! Who answers: what an agentable says of it, and what a run reads of it with its context (`houston.serving`).

use houston_domain::agent_settings::AgentSettings;
use houston_domain::id::{AgentId, AgentableId, TeamId, TenantId};
use houston_domain::team::Router;
use serde::Deserialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::pool::Store;

/// Who answers for an agentable; neither: the default agent of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServedBy {
    /// An agent.
    pub agent: Option<AgentId>,
    /// Or a team, whose router picks.
    pub team: Option<TeamId>,
}

/// What changes of who answers for an agentable and with what; the rest stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServingChange {
    /// Who answers.
    pub served_by: Option<ServedBy>,
    /// The tools it may call, of those of its kind; `Some(None)`: all of them.
    pub tools: Option<Option<Vec<String>>>,
}

/// An agent as a run reads it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServingAgent {
    /// Its id.
    #[serde(skip, default = "nobody")]
    pub id: AgentId,
    /// What it is called.
    pub name: String,
    /// Rises with each change.
    pub version: i64,
    /// Whether it may answer.
    pub enabled: bool,
    /// Whether it says what its kind's file says.
    pub follows_file: bool,
    /// What it is.
    pub settings: AgentSettings,
}

/// A team as a run reads it whose agent is not picked yet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServingTeam {
    /// Its id.
    #[serde(skip, default = "no_team")]
    pub id: TeamId,
    /// What it is called.
    pub name: String,
    /// Rises with each change.
    pub version: i64,
    /// How one of its agents is picked.
    pub router: Router,
    /// The place of the agent that answers when nobody else is picked, from 1.
    fallback: Option<usize>,
    /// Its agents, as listed.
    #[serde(skip)]
    pub agents: Vec<ServingAgent>,
}

impl ServingTeam {
    /// Who answers when nobody else is picked: the one the team names, or else the first that may answer.
    #[must_use]
    pub fn fallback(&self) -> Option<&ServingAgent> {
        let named = self.fallback.and_then(|place| self.agents.get(place.checked_sub(1)?));
        named.filter(|agent| agent.enabled).or_else(|| self.agents.iter().find(|agent| agent.enabled))
    }
}

/// Who answers a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Serving {
    /// What the file of its kind says.
    #[default]
    File,
    /// This agent.
    Agent(Box<ServingAgent>),
    /// This agent, picked by its team's router for this run.
    Routed(Box<ServingAgent>),
    /// One of a team, to be picked.
    Team(Box<ServingTeam>),
    /// A row says what this Houston does not understand: which one, and why.
    Unreadable(String),
}

fn nobody() -> AgentId {
    AgentId(Uuid::nil())
}

fn no_team() -> TeamId {
    TeamId(Uuid::nil())
}

impl Serving {
    /// Whether the context's rows called so are read here.
    pub(crate) fn is_of(what: &str) -> bool {
        matches!(what, "agent" | "routed" | "team" | "team_agent")
    }

    /// Takes one row of the context. The rows of one sort come in their order, `team` before `team_agent`.
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

/// Says who answers for an agentable, in the caller's transaction.
pub(crate) async fn assign(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    served_by: ServedBy,
) -> Result<bool> {
    let change = ServingChange { served_by: Some(served_by), tools: None };
    set(connection, tenant, agentable, &change).await
}

/// Whether there is such an agentable.
pub(crate) async fn set(
    connection: &mut PgConnection,
    tenant: TenantId,
    agentable: AgentableId,
    change: &ServingChange,
) -> Result<bool> {
    let served_by = change.served_by.unwrap_or_default();
    let done = sqlx::query!(
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
    .execute(connection)
    .await
    .map_err(|error| match Error::from(error) {
        error if error.sqlstate().as_deref() == Some("23503") => Error::NotFound { what: "agent or team" },
        error => error,
    })?;
    Ok(done.rows_affected() > 0)
}

impl Store {
    /// Says who answers for an agentable of the tenant, from its next run on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such agentable, or the agent or team is gone.
    pub async fn assign(&self, tenant: TenantId, agentable: AgentableId, served_by: ServedBy) -> Result<()> {
        self.change_serving(tenant, agentable, &ServingChange { served_by: Some(served_by), tools: None })
            .await
    }

    /// Says who answers for an agentable of the tenant, and with what, from its next run on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such agentable, or the agent or team is gone.
    pub async fn change_serving(
        &self,
        tenant: TenantId,
        agentable: AgentableId,
        change: &ServingChange,
    ) -> Result<()> {
        let found = set(&mut *self.pool.acquire().await?, tenant, agentable, change).await?;
        if found { Ok(()) } else { Err(Error::NotFound { what: "agentable" }) }
    }
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
    fn who_answers_when_nobody_is_picked_may_answer() {
        let of =
            |fallback: &str, agents: &[bool]| team(fallback, agents).fallback().map(|one| one.id.0.as_u128());
        assert_eq!(of("2", &[true, true]), Some(2));
        assert_eq!(of("null", &[true, true]), Some(1));
        assert_eq!(of("2", &[true, false]), Some(1), "a disabled one answers nothing");
        assert_eq!(of("2", &[false, false]), None);
    }

    #[test]
    fn a_row_nobody_understands_is_told_and_no_panic() {
        let mut serving = Serving::default();
        serving.take("agent", Uuid::from_u128(1), "{}");
        assert!(matches!(serving, Serving::Unreadable(told) if told.contains("missing field")));
    }
}
