//! Validates the body of a request that creates or changes a team, and applies it.

use houston_domain::agent_settings::{MAX_AGENT_DESCRIPTION_BYTES, MAX_AGENT_NAME_CHARS};
use houston_domain::id::AgentId;
use houston_domain::team::{Condition, Router, RouterKind, RuleLimits};
use houston_protocol::team::TeamSettingsRequest;
use houston_store::agent::Agent;
use houston_store::team::Team;

use crate::agents::body::check_output;
use crate::auth::Caller;
use crate::body::{check_line, check_size, check_text};
use crate::error::ApiError;
use crate::state::App;

/// Checks that all fields a new team needs are given.
pub(super) fn check_complete(body: &TeamSettingsRequest) -> Result<(), ApiError> {
    let missing =
        [("name", body.name.is_none()), ("agents", body.agents.is_none()), ("router", body.router.is_none())];
    if let Some((field, _)) = missing.into_iter().find(|(_, missing)| *missing) {
        return Err(ApiError::field(&format!("/{field}"), format!("missing field `{field}`")));
    }
    match body.version {
        Some(_) => Err(ApiError::field("/version", "is only allowed in changes; a new team has version 1")),
        None => Ok(()),
    }
}

/// Whether no field is given, except perhaps `version`.
pub(super) fn is_empty(body: &TeamSettingsRequest) -> bool {
    body.name.is_none()
        && body.description.is_none()
        && body.agents.is_none()
        && body.default_agent_id.is_none()
        && body.router.is_none()
        && body.output.is_none()
}

/// Checks the given fields and applies them to `team`.
pub(super) async fn apply(
    body: TeamSettingsRequest,
    app: &App,
    caller: Caller,
    team: Team,
) -> Result<Team, ApiError> {
    let mut team = team;
    if let Some(name) = body.name {
        check_line("/name", &name, MAX_AGENT_NAME_CHARS)?;
        team.name = name;
    }
    if let Some(description) = body.description {
        check_text("/description", &description)?;
        check_size("/description", description.len(), MAX_AGENT_DESCRIPTION_BYTES)?;
        team.description = description;
    }
    if let Some(agents) = body.agents {
        team.kind = check_agents(app, caller, &agents).await?;
        if !agents.contains(&team.fallback) {
            team.fallback = agents.first().copied().unwrap_or(team.fallback);
        }
        team.agents = agents;
    }
    if let Some(fallback) = body.default_agent_id {
        check_member("/default_agent_id", fallback, &team.agents)?;
        team.fallback = fallback;
    }
    if let Some(output) = body.output {
        check_output(output.as_ref())?;
        team.output = output;
    }
    if let Some(router) = body.router {
        team.router = router;
    }
    // Compiling regular expressions takes up to 100 ms.
    let limits = app.state.team_rules;
    let max_rules = app.store(caller).team_limits().rules_per_team;
    app.offload.compute(move || check_router(&team, &limits, max_rules).map(|()| team)).await?
}

/// Checks that the agents exist and have the same kind. Returns the kind.
async fn check_agents(app: &App, caller: Caller, agents: &[AgentId]) -> Result<String, ApiError> {
    let max_agents = app.store(caller).team_limits().agents_per_team;
    if agents.is_empty() || agents.len() > max_agents {
        return Err(ApiError::field("/agents", format!("must have 1 to {max_agents} agents")));
    }
    let found = app.store(caller).agents_among(agents).await?;
    let mut kind: Option<&Agent> = None;
    for (index, id) in agents.iter().enumerate() {
        let pointer = format!("/agents/{index}");
        if agents[..index].contains(id) {
            return Err(ApiError::field(&pointer, format!("{id} is listed twice")));
        }
        let agent = found.iter().find(|agent| agent.id == *id);
        let agent = agent.ok_or_else(|| ApiError::field(&pointer, format!("there is no agent {id}")))?;
        let first = *kind.get_or_insert(agent);
        if agent.kind != first.kind {
            let detail = format!(
                "`{}` is of the kind `{}`, but the first agent is of the kind `{}`; all agents of a team have the same kind",
                agent.name, agent.kind, first.kind
            );
            return Err(ApiError::field(&pointer, detail));
        }
    }
    Ok(kind.map(|agent| agent.kind.clone()).unwrap_or_default())
}

fn check_member(pointer: &str, agent: AgentId, agents: &[AgentId]) -> Result<(), ApiError> {
    if agents.contains(&agent) {
        return Ok(());
    }
    let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
    Err(ApiError::field(
        pointer,
        format!("{agent} is not among the agents of the team: {}", agents.join(", ")),
    ))
}

fn check_router(team: &Team, limits: &RuleLimits, max_rules: usize) -> Result<(), ApiError> {
    let Router { by, rules } = &team.router;
    if *by == RouterKind::Model && !rules.is_empty() {
        return Err(ApiError::field(
            "/router/rules",
            "are only allowed for a router by `rules`; with a router by `model` the model picks",
        ));
    }
    if *by == RouterKind::Rules && (rules.is_empty() || rules.len() > max_rules) {
        return Err(ApiError::field("/router/rules", format!("must have 1 to {max_rules} rules")));
    }
    for (index, rule) in rules.iter().enumerate() {
        check_member(&format!("/router/rules/{index}/agent_id"), rule.agent_id, &team.agents)?;
        rule.when.check(limits).map_err(|invalid| {
            let field = invalid.field().map(|field| format!("/{field}")).unwrap_or_default();
            ApiError::field(&format!("/router/rules/{index}/when{field}"), invalid.to_string())
        })?;
        let Condition { contains, prefix, regex, .. } = &rule.when;
        for text in [contains, prefix, regex].into_iter().flatten() {
            check_text(&format!("/router/rules/{index}/when"), text)?;
        }
    }
    Ok(())
}
