//! `/v1/agents`: named configurations of a tenant, each of a kind of `jobs/agents`. Each kind has a default agent, which
//! answers where no other agent is chosen and follows the kind's file until it is changed.
//!
//! A change applies from the next run on: workers read the agent together with each run's context.

pub(crate) mod body;
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
use houston_protocol::agent::AgentResponse;
use houston_protocol::time::Time;
use houston_store::Error;
use houston_store::agent::{Agent, Changed, DefaultAgent, Deletion, UsedBy};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

/// The response for an agent.
pub(crate) fn response(agent: Agent) -> AgentResponse {
    let AgentSettings {
        description,
        role,
        guidelines,
        tools,
        use_case,
        provider,
        model,
        limits,
        sampling,
        output,
        model_policy,
        guards: _,
    } = agent.settings;
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
        sampling,
        output,
        model_policy,
        enabled: agent.enabled,
        is_default: agent.is_default,
        changed: agent.changed,
        version: agent.version,
        created_at: Time(agent.created_at),
        updated_at: Time(agent.updated_at),
    }
}

/// The default agents of `kinds`, with the settings of their files.
pub(crate) fn defaults<'a>(app: &App, kinds: &'a BTreeMap<String, AgentType>) -> Vec<DefaultAgent<'a>> {
    let default = |kind: &'a AgentType| DefaultAgent {
        id: app.state.ids.next(),
        kind: &kind.kind,
        settings: AgentSettings::of(kind),
    };
    kinds.values().map(default).collect()
}

/// Creates the default agents that the tenant does not have yet.
pub(crate) async fn ensure_defaults(app: &App, caller: Caller) -> Result<(), ApiError> {
    let defaults = defaults(app, &app.state.agent_types);
    Ok(app.store(caller).ensure_default_agents(&defaults).await?)
}

/// Reads the kinds from their files.
///
/// # Errors
/// [`ApiError::UnreadableFiles`] when a file is missing or invalid.
fn read_files(app: &App) -> Result<BTreeMap<String, AgentType>, ApiError> {
    (app.state.agents.read_files)().map_err(|reason| ApiError::UnreadableFiles { reason })
}

/// Converts a store error; a duplicate name becomes [`ApiError::AlreadyExists`].
pub(crate) fn name_taken(error: Error) -> ApiError {
    match error {
        Error::Exists { what, existing } => ApiError::AlreadyExists { what, field: "name", existing },
        error => error.into(),
    }
}

/// The error for a name that is reserved for the default agent of a kind.
async fn reserved_name(app: &App, caller: Caller, name: &str) -> ApiError {
    match app.store(caller).id_of_name("agent", name).await {
        Ok(existing) => ApiError::AlreadyExists { what: "agent", field: "name", existing },
        Err(error) => error.into(),
    }
}

/// How often a change is repeated that conflicts with concurrent changes.
const MAX_ATTEMPTS: u32 = 10;

/// Runs a read-modify-write `change` and repeats it after a conflict, unless the client gave a `version`.
///
/// # Errors
/// [`ApiError::StaleVersion`] when the version differs from the client's, or after [`MAX_ATTEMPTS`] conflicts; the
/// errors of `change`.
pub(crate) async fn retry_on_conflict<T, F: Future<Output = Result<Changed<T>, ApiError>>>(
    version: Option<i64>,
    mut change: impl FnMut() -> F,
) -> Result<T, ApiError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match change().await? {
            Changed::Done(changed) => return Ok(changed),
            Changed::Stale(_) if version.is_none() && tries < MAX_ATTEMPTS => {}
            Changed::Stale(version) => return Err(ApiError::StaleVersion { version }),
        }
    }
}

/// # Errors
/// [`ApiError::InUse`] when `what` was not deleted because it is in use.
pub(crate) fn check_deleted(what: &'static str, deleted: Deletion) -> Result<(), ApiError> {
    match deleted {
        Deletion::Deleted => Ok(()),
        Deletion::InUse(by) => {
            let ids = by.into_iter().map(|one| match one {
                UsedBy::Agentable(kind, id) => id.public_id(&kind),
                UsedBy::Team(id) => id.to_string(),
            });
            Err(ApiError::InUse { what, by: ids.collect() })
        }
    }
}
