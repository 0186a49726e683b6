//! `/v1/teams`: agents of one kind and a router that picks one of them for each run. History, notes and learnings belong to
//! the agentable and are the same for all of them; role, tools, model and limits are those of the picked agent.

use std::convert::identity as response;

use houston_domain::agent_settings::{MAX_AGENT_DESCRIPTION_BYTES, MAX_AGENT_NAME_CHARS};
use houston_domain::id::{AgentId, TeamId};
use houston_domain::team::{Condition, Router, RouterKind, RuleLimits, Team};
use houston_protocol::team::TeamSettingsRequest;
use houston_store::agent::{Agent, Changed};

use crate::request::prelude::*;
use crate::resources::agents::settings::check_output;
use crate::resources::agents::{check_deleted, ensure_defaults, retry_on_conflict};

endpoints! {
    get "/v1/teams" for TENANT => list,
    "list_teams" in "teams": "List the teams of the tenant, newest first.",
    params(Paged),
    200 "A page of teams." [Page<houston_domain::team::Team>];

    post "/v1/teams" for TENANT => create,
    "create_team" in "teams": "Create a team of existing agents.",
    params(Keyed),
    body [TeamSettingsRequest],
    201 "The new team." [houston_domain::team::Team],
    409 "`already_exists`: another team has the name; `full`: the tenant has the maximum number of teams.";

    get "/v1/teams/{id}" for TENANT => async |ctx: Ctx, Id(id): Id<TeamId>| found(ctx.store().team(id).await),
    "get_team" in "teams": "Get a team.",
    200 "The team." [houston_domain::team::Team];

    patch "/v1/teams/{id}" for TENANT => change,
    "update_team" in "teams": "Change a team; fields not given stay as they are.",
    body [TeamSettingsRequest],
    200 "The changed team." [houston_domain::team::Team],
    409 "`already_exists`: another team has the name; `stale_version`: the team has another version.";

    delete "/v1/teams/{id}" for TENANT => delete,
    "delete_team" in "teams": "Delete a team that is not in use; its agents are kept.",
    204 "The team is deleted.",
    409 "`in_use`: an agentable uses the team.";
}

async fn list(ctx: Ctx, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(List::Teams)?.map(Into::into));
    let teams = ctx.store().teams(None, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Teams, limit, teams, |team: &Team| team.id.0.as_u128(), response)))
}

async fn create(ctx: Ctx, request: Creation<TeamSettingsRequest>) -> Result<Response> {
    let Creation { value: body, key } = request;
    check_complete(&body)?;
    ensure_defaults(&ctx).await?;
    let now = ctx.now();
    // The body sets every field, or the field has a default.
    let empty = Team {
        id: ctx.state.ids.next(),
        kind: String::new(),
        name: String::new(),
        description: String::new(),
        agents: Vec::new(),
        fallback: AgentId(uuid::Uuid::nil()),
        router: Router { by: RouterKind::Rules, rules: Vec::new() },
        output: None,
        version: 1,
        created_at: Time(now),
        updated_at: Time(now),
    };
    let team = apply(body, &ctx, empty).await?;
    let (key, answered) = once(&key, &team);
    let done = ctx.store().create_team(&team, (key, &answered)).await.map_err(ApiError::taken("name"))?;
    created(unless_key_reused(done)?, "/v1/teams")
}

/// With `version`, only if the team still has that version. The new agents must have the same kind, because agentables of that
/// kind may use the team.
async fn change(
    ctx: Ctx,
    Id(id): Id<TeamId>,
    Change(body): Change<TeamSettingsRequest>,
) -> Result<impl IntoResponse> {
    if is_empty(&body) {
        let detail =
            "nothing to change: give at least one of name, description, agents, default_agent_id, router";
        return Err(ApiError::field("", detail));
    }
    let version = body.version;
    let changed = retry_on_conflict(version, || change_once(&ctx, id, body.clone())).await?;
    Ok(Json(changed))
}

/// Reads the team, applies the change and writes it if the version is unchanged.
async fn change_once(ctx: &Ctx, id: TeamId, body: TeamSettingsRequest) -> Result<Changed<Team>> {
    let team = ctx.store().team(id).await?;
    // The new settings are computed from what was read above: a concurrent change must not be overwritten.
    let version = Some(body.version.unwrap_or(team.version));
    let kind = team.kind.clone();
    let team = apply(body, ctx, team).await?;
    if team.kind != kind {
        let detail =
            format!("must be of the kind `{kind}`, as the team is; create another team for another kind");
        return Err(ApiError::field("/agents", detail));
    }
    ctx.store().change_team(&team, version).await.map_err(ApiError::taken("name"))
}

/// A team that an agentable uses cannot be deleted.
async fn delete(ctx: Ctx, Id(id): Id<TeamId>) -> Result<StatusCode> {
    check_deleted("team", ctx.store().delete_team(id).await?)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Checks that all fields a new team needs are given.
fn check_complete(body: &TeamSettingsRequest) -> Result<()> {
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
fn is_empty(body: &TeamSettingsRequest) -> bool {
    *body == TeamSettingsRequest { version: body.version, ..TeamSettingsRequest::default() }
}

/// Checks the given fields and applies them to `team`.
async fn apply(body: TeamSettingsRequest, ctx: &Ctx, mut team: Team) -> Result<Team> {
    if let Some(name) = body.name {
        check_line("/name", &name, MAX_AGENT_NAME_CHARS)?;
        team.name = name;
    }
    if let Some(description) = body.description {
        check_bytes("/description", &description, MAX_AGENT_DESCRIPTION_BYTES)?;
        team.description = description;
    }
    if let Some(agents) = body.agents {
        team.kind = check_agents(ctx, &agents).await?;
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
    let limits = ctx.state.team_rules;
    let max_rules = ctx.store().team_limits.rules_per_team;
    ctx.offload.compute(move || check_router(&team, &limits, max_rules).map(|()| team)).await?
}

/// Checks that the agents exist and have the same kind. Returns the kind.
async fn check_agents(ctx: &Ctx, agents: &[AgentId]) -> Result<String> {
    let max_agents = ctx.store().team_limits.agents_per_team;
    if agents.is_empty() || agents.len() > max_agents {
        return Err(ApiError::field("/agents", format!("must have 1 to {max_agents} agents")));
    }
    let found = ctx.store().agents_among(agents).await?;
    let mut kind: Option<&Agent> = None;
    for (index, id) in agents.iter().enumerate() {
        let pointer = format!("/agents/{index}");
        ensure!(!agents[..index].contains(id), ApiError::field(&pointer, format!("{id} is listed twice")));
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

fn check_member(pointer: &str, agent: AgentId, agents: &[AgentId]) -> Result<()> {
    if agents.contains(&agent) {
        return Ok(());
    }
    let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
    let reason = format!("{agent} is not among the agents of the team: {}", agents.join(", "));
    Err(ApiError::field(pointer, reason))
}

fn check_router(team: &Team, limits: &RuleLimits, max_rules: usize) -> Result<()> {
    let Router { by, rules } = &team.router;
    if *by == RouterKind::Model && !rules.is_empty() {
        let reason = "are only allowed for a router by `rules`; with a router by `model` the model picks";
        return Err(ApiError::field("/router/rules", reason));
    }
    if *by == RouterKind::Rules && (rules.is_empty() || rules.len() > max_rules) {
        return Err(ApiError::field("/router/rules", format!("must have 1 to {max_rules} rules")));
    }
    for (index, rule) in rules.iter().enumerate() {
        check_member(&format!("/router/rules/{index}/agent_id"), rule.agent_id, &team.agents)?;
        rule.when.check(limits).map_err(|wrong| wrong.below(&format!("/router/rules/{index}/when")))?;
        let Condition { contains, prefix, regex, .. } = &rule.when;
        for text in [contains, prefix, regex].into_iter().flatten() {
            check_text(&format!("/router/rules/{index}/when"), text)?;
        }
    }
    Ok(())
}
