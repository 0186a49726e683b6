//! `/v1/agents`: named configurations of a tenant's, each of a kind of `jobs/agents`. Each kind has a default one, which
//! answers where nobody chose another; it says what the kind's file says until somebody changes it.
//!
//! Runs see a change from the next one on: workers read who answers with each run's context.

mod body;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod reset;
pub(crate) mod resync;
pub(crate) mod sources;

use std::collections::BTreeMap;

use houston_domain::agent_settings::AgentSettings;
use houston_domain::agentable::AgentType;
use houston_domain::id::TenantId;
use houston_protocol::agent::AgentResponse;
use houston_protocol::time::Time;
use houston_store::Error;
use houston_store::agent::{Agent, Changed, DefaultAgent, Deleted, UsedBy};

use crate::error::ApiError;
use crate::state::App;

/// The agent as clients see it.
pub(crate) fn response(agent: Agent) -> AgentResponse {
    let AgentSettings { description, role, guidelines, tools, use_case, provider, model, limits } =
        agent.settings;
    let limits = serde_json::to_value(limits).unwrap_or_default();
    let limits = limits.as_object().cloned().unwrap_or_default();
    AgentResponse {
        id: agent.id,
        name: agent.name,
        kind: agent.kind,
        description,
        role,
        guidelines,
        tools,
        use_case,
        provider,
        model,
        limits: limits.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        enabled: agent.enabled,
        is_default: agent.is_default,
        changed: agent.changed,
        version: agent.version,
        created_at: Time(agent.created_at),
        updated_at: Time(agent.updated_at),
    }
}

/// The default agents of `kinds`, as their files say.
pub(crate) fn defaults<'a>(app: &App, kinds: &'a BTreeMap<String, AgentType>) -> Vec<DefaultAgent<'a>> {
    let default = |kind: &'a AgentType| DefaultAgent {
        id: app.state.ids.next(),
        kind: &kind.kind,
        settings: AgentSettings::of(kind),
    };
    kinds.values().map(default).collect()
}

/// Makes the default agents a tenant does not have yet.
pub(crate) async fn ensure_defaults(app: &App, tenant: TenantId) -> Result<(), ApiError> {
    let defaults = defaults(app, &app.state.agent_types);
    Ok(app.store().ensure_default_agents(tenant, &defaults).await?)
}

/// The kinds as their files stand now.
fn read_files(app: &App) -> Result<BTreeMap<String, AgentType>, ApiError> {
    (app.state.agents.read_files)().map_err(|reason| ApiError::UnreadableFiles { reason })
}

/// A name that another has.
pub(crate) fn name_taken(error: Error) -> ApiError {
    match error {
        Error::Exists { what, existing } => ApiError::AlreadyExists { what, field: "name", existing },
        error => error.into(),
    }
}

/// A name that is kept for the default agent of a kind.
async fn name_of_kind(app: &App, tenant: TenantId, name: &str) -> ApiError {
    match app.store().id_of_name(tenant, "agent", name).await {
        Ok(existing) => ApiError::AlreadyExists { what: "agent", field: "name", existing },
        Err(error) => error.into(),
    }
}

/// How often a change is tried that others are faster than.
const TRIES: u32 = 10;

/// Changes something that is read before: again when somebody was faster, unless the client said of which version it
/// must be.
pub(crate) async fn until_changed<T, F: Future<Output = Result<Changed<T>, ApiError>>>(
    version: Option<i64>,
    mut change: impl FnMut() -> F,
) -> Result<T, ApiError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match change().await? {
            Changed::Done(changed) => return Ok(changed),
            Changed::Stale(_) if version.is_none() && tries < TRIES => {}
            Changed::Stale(version) => return Err(ApiError::StaleVersion { version }),
        }
    }
}

/// That something is gone, unless it is in use.
pub(crate) fn unless_used(what: &'static str, deleted: Deleted) -> Result<(), ApiError> {
    match deleted {
        Deleted::Gone => Ok(()),
        Deleted::InUse(by) => {
            let shown = by.into_iter().map(|one| match one {
                UsedBy::Agentable(kind, id) => id.shown(&kind),
                UsedBy::Team(id) => id.to_string(),
            });
            Err(ApiError::InUse { what, by: shown.collect() })
        }
    }
}
