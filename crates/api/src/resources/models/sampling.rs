//! Refuses settings that the model of an agent does not accept: a provider would answer 400, or ignore them.

use houston_domain::agent_settings::{AgentSettings, DEFAULT};
use houston_domain::answering::Sampling;
use houston_domain::id::AgentId;

use crate::request::prelude::*;
use crate::wiring::RefusedSetting;

/// What an agent calls its model: `provider/model`, a provider, or a use case.
pub(crate) fn model_of(settings: &AgentSettings) -> String {
    match (settings.provider.as_str(), settings.model.as_str()) {
        (DEFAULT, _) => settings.use_case.clone(),
        (provider, DEFAULT) => provider.to_owned(),
        (provider, model) => format!("{provider}/{model}"),
    }
}

/// Checks the settings of an agent. `pointer`: where a setting is.
///
/// # Errors
/// [`ApiError::InvalidRequest`] with the model and the reason; that the models of the installation cannot be read.
pub(crate) async fn check_agent(
    app: &App,
    settings: &AgentSettings,
    pointer: impl Fn(&str) -> String,
) -> Result<()> {
    if settings.sampling.is_empty() {
        return Ok(());
    }
    match app.state.models.refusal(model_of(settings), settings.sampling.clone()).await? {
        Some(RefusedSetting { setting, why }) => Err(ApiError::field(&pointer(setting), why)),
        None => Ok(()),
    }
}

/// Checks the settings of a message to an agentable: against the model of its agent. A team picks its agent later: what that
/// one does not accept is left out then.
///
/// # Errors
/// As [`check_agent`]; the store's errors.
pub(crate) async fn check(
    ctx: &Ctx,
    path: &AgentablePath,
    sampling: &Sampling,
    pointer: impl Fn(&str) -> String,
) -> Result<()> {
    if sampling.is_empty() {
        return Ok(());
    }
    let store = ctx.store();
    let served_by = store.agentable(&path.kind, path.id).await?.served_by;
    if served_by.team.is_some() {
        return Ok(());
    }
    check_agent_of(ctx, (&path.kind, served_by.agent), sampling, pointer).await
}

/// The same for a thread that is made afterwards, with `target`: a kind, or an agent by its id or name. Whether there is such
/// an agent is not looked at.
pub(crate) async fn check_target(
    ctx: &Ctx,
    target: &str,
    sampling: &Sampling,
    pointer: impl Fn(&str) -> String,
) -> Result<()> {
    if sampling.is_empty() {
        return Ok(());
    }
    let agent = match target.parse() {
        _ if ctx.state.agent_types.contains_key(target) => None,
        Ok(agent) => Some(agent),
        Err(_) => match ctx.store().id_of_name("agent", target).await?.and_then(|id| id.parse().ok()) {
            Some(agent) => Some(agent),
            None => return Ok(()),
        },
    };
    check_agent_of(ctx, (target, agent), sampling, pointer).await
}

/// `agent`: of a kind; `None`: its default agent.
async fn check_agent_of(
    ctx: &Ctx,
    (kind, agent): (&str, Option<AgentId>),
    sampling: &Sampling,
    pointer: impl Fn(&str) -> String,
) -> Result<()> {
    let store = ctx.store();
    let agent = match agent {
        Some(agent) => Some(agent),
        None => {
            let of_kinds = store.agents_by_kind().await?;
            of_kinds.into_iter().find(|of| of.kind == kind).and_then(|of| of.default_agent)
        }
    };
    let settings = match agent {
        Some(agent) => store.agent(agent).await?.settings,
        // The tenant has used no agents yet.
        None => match ctx.state.agent_types.get(kind) {
            Some(kind) => AgentSettings::of(kind),
            None => return Ok(()),
        },
    };
    let settings = AgentSettings { sampling: sampling.over(&settings.sampling), ..settings };
    check_agent(ctx, &settings, pointer).await
}
