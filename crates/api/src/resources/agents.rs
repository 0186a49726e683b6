//! `/v1/agents`: named configurations of a tenant, each of a kind of `jobs/agents`. Each kind has a default agent, which
//! answers where no other agent is chosen and follows the kind's file until it is changed.
//!
//! A change applies from the next run on: workers read the agent together with each run's context.

pub(crate) mod settings;

use std::collections::BTreeMap;

use houston_domain::agent_settings::AgentSettings;
use houston_domain::agentable::AgentType;
use houston_domain::id::AgentId;
use houston_protocol::agent::{AgentResponse, AgentSettingsRequest, ResyncResponse};
use houston_protocol::problem::ProblemCode;
use houston_store::agent::{Agent, AgentChange, Changed, DefaultAgent, Deletion, Synced, UsedBy};

use crate::request::checks::{suggestion, truncated};
use crate::request::prelude::*;
use crate::resources::agentables::tools::with_own;
use crate::resources::models::sampling::check_agent;

endpoints! {
    get "/v1/agents" for TENANT => list,
    "list_agents" in "agents": "List the agents of the tenant, default agents included, newest first.",
    params(Paged),
    200 "A page of agents." [Page<houston_protocol::agent::AgentResponse>];

    post "/v1/agents" for TENANT => create,
    "create_agent" in "agents": "Create an agent; fields that are not given come from the file of its kind.",
    params(Keyed),
    body [AgentSettingsRequest],
    201 "The new agent." [houston_protocol::agent::AgentResponse],
    409 "`already_exists`: another agent has the name; `full`: the tenant has the maximum number of agents.";

    post "/v1/agents/resync" for TENANT.change(Scope::Operate) => resync,
    "resync_agents" in "agents": "Read jobs/agents again and update the default agents that were not changed.",
    200 "The kinds, by what happened to their default agents." [ResyncResponse],
    409 "`unreadable_files`: jobs/agents cannot be read.";

    get "/v1/agents/{id}" for TENANT =>
        async |ctx: Ctx, Id(id): Id<AgentId>| found(ctx.store().agent(id).await.map(response)),
    "get_agent" in "agents": "Get an agent.",
    200 "The agent." [houston_protocol::agent::AgentResponse];

    patch "/v1/agents/{id}" for TENANT => change,
    "update_agent" in "agents": "Change an agent; fields not given stay as they are.",
    body [AgentSettingsRequest],
    200 "The changed agent." [houston_protocol::agent::AgentResponse],
    409 "`already_exists`: another agent has the name; `stale_version`: the agent has another version.";

    delete "/v1/agents/{id}" for TENANT => delete,
    "delete_agent" in "agents": "Delete an agent that is not in use.",
    204 "The agent is deleted.",
    409 "`default_agent`: default agents cannot be deleted; `in_use`: an agentable or a team uses it.";

    post "/v1/agents/{id}/reset" for TENANT => reset,
    "reset_agent" in "agents": "Restore a default agent from the file of its kind.",
    200 "The restored agent." [houston_protocol::agent::AgentResponse],
    409 "`no_default_agent`: only default agents have a file; `unreadable_files`: jobs/agents cannot be read.";
}

/// How often a change is repeated that conflicts with concurrent changes.
const MAX_ATTEMPTS: u32 = 10;

async fn list(ctx: Ctx, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(List::Agents)?.map(Into::into));
    ensure_defaults(&ctx).await?;
    let agents = ctx.store().agents(before, rows(limit)).await?;
    Ok(Json(Page::of(List::Agents, limit, agents, |agent: &Agent| agent.id.0.as_u128(), response)))
}

async fn create(ctx: Ctx, request: Creation<AgentSettingsRequest>) -> Result<Response> {
    let Creation { value: mut body, key } = request;
    let kind = kind(&ctx, body.kind.take())?;
    let name = body.name.take().ok_or_else(|| ApiError::field("/name", "missing field `name`"))?;
    settings::check_name(&name)?;
    if body.version.is_some() {
        return Err(ApiError::field("/version", "is only allowed in changes; a new agent has version 1"));
    }
    if ctx.state.agent_types.contains_key(&name) {
        return Err(reserved_name(&ctx, &name).await);
    }
    let enabled = body.enabled.unwrap_or(true);
    let tools_of = with_own(&ctx, kind, body.tools.as_deref()).await?;
    let settings = settings::apply(body, AgentSettings::of(kind), &tools_of, &ctx.state.agents)?;
    check_agent(&ctx, &settings, |setting| format!("/sampling/{setting}")).await?;
    let now = ctx.now();
    let agent = Agent {
        id: ctx.state.ids.next(),
        kind: kind.kind.clone(),
        name,
        is_default: false,
        changed: true,
        enabled,
        settings,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    ensure_defaults(&ctx).await?;
    let (key, body) = once(&key, &response(agent.clone()));
    let done = ctx.store().create_agent(&agent, (key, &body)).await.map_err(ApiError::taken("name"))?;
    created(unless_key_reused(done)?, "/v1/agents")
}

fn kind(app: &App, given: Option<String>) -> Result<&AgentType> {
    let given = given.ok_or_else(|| ApiError::field("/kind", "missing field `kind`"))?;
    app.state.agent_types.get(&given).ok_or_else(|| {
        let kinds: Vec<&str> = app.state.agent_types.keys().map(String::as_str).collect();
        let (given, suggestion, kinds) = (truncated(&given), suggestion(&given, &kinds), kinds.join(", "));
        ApiError::field("/kind", format!("there is no kind `{given}`; there are: {kinds}{suggestion}"))
    })
}

async fn change(
    ctx: Ctx,
    Id(id): Id<AgentId>,
    Change(body): Change<AgentSettingsRequest>,
) -> Result<impl IntoResponse> {
    if body.kind.is_some() {
        return Err(ApiError::field("/kind", "cannot be changed; create an agent of the other kind"));
    }
    if settings::is_empty(&body) {
        let detail = "nothing to change: give at least one of name, description, role, guidelines, tools, use_case, \
                    provider, model, limits, enabled";
        return Err(ApiError::field("", detail));
    }
    let version = body.version;
    let changed = retry_on_conflict(version, || change_once(&ctx, id, body.clone())).await?;
    Ok(Json(response(changed)))
}

/// Reads the agent, applies the change and writes it if the version is unchanged.
async fn change_once(ctx: &Ctx, id: AgentId, mut body: AgentSettingsRequest) -> Result<Changed<Agent>> {
    let agent = ctx.store().agent(id).await?;
    let name = body.name.take();
    if let Some(name) = &name {
        settings::check_name(name)?;
        ensure!(!is_reserved(ctx, &agent, name), reserved_name(ctx, name).await);
    }
    // The new settings are computed from what was read above: a concurrent change must not be overwritten.
    let version = Some(body.version.unwrap_or(agent.version));
    let enabled = body.enabled;
    let changed = agent.changed || settings::changes_file_settings(&body);
    let settings = match ctx.state.agent_types.get(&agent.kind) {
        _ if !settings::changes_settings(&body) => None,
        Some(kind) => {
            let kind = with_own(ctx, kind, body.tools.as_deref()).await?;
            let settings = settings::apply(body, agent.settings, &kind, &ctx.state.agents)?;
            check_agent(ctx, &settings, |setting| format!("/sampling/{setting}")).await?;
            Some(settings)
        }
        None => {
            let detail =
                format!("this server has no kind `{}`, so the agent cannot be changed here", agent.kind);
            return Err(ApiError::field("", detail));
        }
    };
    let change =
        AgentChange { name: name.as_deref(), enabled, settings: settings.as_ref(), changed, version };
    ctx.store().change_agent(id, &change).await.map_err(ApiError::taken("name"))
}

/// Whether `name` is the name of a kind, and so reserved for the default agent of that kind.
fn is_reserved(app: &App, agent: &Agent, name: &str) -> bool {
    let own = agent.is_default && agent.kind == name;
    !own && app.state.agent_types.contains_key(name)
}

/// An agent in use cannot be deleted, because its agentables would be answered by an agent their users did not choose. A default
/// agent cannot be deleted either; it can be disabled or reset.
async fn delete(ctx: Ctx, Id(id): Id<AgentId>) -> Result<StatusCode> {
    let agent = ctx.store().agent(id).await?;
    if agent.is_default {
        let kind = agent.kind;
        let why = format!(
            "the default agent of the kind `{kind}` cannot be deleted, because it answers where no other agent is chosen; \
             change it, disable it with `enabled`: false, or restore it from jobs/agents/{kind}.toml with `reset`"
        );
        return Err(ApiError::Refused(ProblemCode::DefaultAgent, why));
    }
    check_deleted("agent", ctx.store().delete_agent(id).await?)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The file of the kind is read again.
async fn reset(ctx: Ctx, Id(id): Id<AgentId>) -> Result<impl IntoResponse> {
    let agent = ctx.store().agent(id).await?;
    if !agent.is_default {
        let name = agent.name;
        let why = format!(
            "`{name}` is not a default agent; only default agents have a file that `reset` can restore"
        );
        return Err(ApiError::Refused(ProblemCode::NoDefaultAgent, why));
    }
    let files = read_files(&ctx)?;
    let kind = files
        .get(&agent.kind)
        .ok_or_else(|| ApiError::UnreadableFiles(format!("there is no {}.toml any more", agent.kind)))?;
    // The file does not have the guards of an agent.
    let settings = AgentSettings { guards: agent.settings.guards, ..AgentSettings::of(kind) };
    let change = AgentChange {
        name: Some(&agent.kind),
        enabled: Some(true),
        settings: Some(&settings),
        changed: false,
        version: None,
    };
    let reset = || async { ctx.store().change_agent(id, &change).await.map_err(ApiError::taken("name")) };
    Ok(Json(response(retry_on_conflict(None, reset).await?)))
}

/// Workers need not be restarted.
async fn resync(ctx: Ctx) -> Result<impl IntoResponse> {
    let mut files = read_files(&ctx)?;
    let mut report = ResyncResponse::default();
    files.retain(|kind, _| {
        let exists = ctx.state.agent_types.contains_key(kind);
        if !exists {
            report.needs_restart.push(kind.clone());
        }
        exists
    });
    let synced = ctx.store().sync_default_agents(&defaults(&ctx, &files)).await?;
    for (kind, became) in synced {
        let list = match became {
            Synced::Created => &mut report.created,
            Synced::Updated => &mut report.updated,
            Synced::Unchanged => &mut report.unchanged,
            Synced::Customised => &mut report.kept,
        };
        list.push(kind);
    }
    Ok(Json(report))
}

/// The response for an agent.
fn response(agent: Agent) -> AgentResponse {
    let settings = agent.settings;
    let limits = serde_json::to_value(settings.limits).unwrap_or_default();
    let limits = limits.as_object().cloned().unwrap_or_default();
    AgentResponse {
        id: agent.id,
        name: agent.name,
        kind: agent.kind,
        description: settings.description,
        role: settings.role,
        guidelines: settings.guidelines,
        tools: settings.tools,
        use_case: settings.use_case,
        provider: settings.provider,
        model: settings.model,
        limits: limits.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        sampling: settings.sampling,
        output: settings.output,
        model_policy: settings.model_policy,
        enabled: agent.enabled,
        is_default: agent.is_default,
        changed: agent.changed,
        version: agent.version,
        created_at: Time(agent.created_at),
        updated_at: Time(agent.updated_at),
    }
}

/// The default agents of `kinds`, with the settings of their files.
fn defaults<'a>(app: &App, kinds: &'a BTreeMap<String, AgentType>) -> Vec<DefaultAgent<'a>> {
    let default = |kind: &'a AgentType| DefaultAgent {
        id: app.state.ids.next(),
        kind: &kind.kind,
        settings: AgentSettings::of(kind),
    };
    kinds.values().map(default).collect()
}

/// Creates the default agents that the tenant does not have yet.
pub(crate) async fn ensure_defaults(ctx: &Ctx) -> Result<()> {
    let defaults = defaults(ctx, &ctx.state.agent_types);
    Ok(ctx.store().ensure_default_agents(&defaults).await?)
}

/// Reads the kinds from their files.
///
/// # Errors
/// [`ApiError::UnreadableFiles`] when a file is missing or invalid.
fn read_files(app: &App) -> Result<BTreeMap<String, AgentType>> {
    (app.state.agents.read_files)().map_err(ApiError::UnreadableFiles)
}

/// The error for a name that is reserved for the default agent of a kind.
async fn reserved_name(ctx: &Ctx, name: &str) -> ApiError {
    match ctx.store().id_of_name("agent", name).await {
        Ok(existing) => ApiError::AlreadyExists { what: "agent", field: "name", existing },
        Err(error) => error.into(),
    }
}

/// Runs a read-modify-write `change` and repeats it after a conflict, unless the client gave a `version`.
///
/// # Errors
/// [`ApiError::StaleVersion`] when the version differs from the client's, or after [`MAX_ATTEMPTS`] conflicts; the
/// errors of `change`.
pub(crate) async fn retry_on_conflict<T, F: Future<Output = Result<Changed<T>>>>(
    version: Option<i64>,
    mut change: impl FnMut() -> F,
) -> Result<T> {
    let mut tries = 0;
    loop {
        tries += 1;
        match change().await? {
            Changed::Done(changed) => return Ok(changed),
            Changed::Stale(_) if version.is_none() && tries < MAX_ATTEMPTS => {}
            Changed::Stale(version) => return Err(ApiError::StaleVersion(version)),
        }
    }
}

/// # Errors
/// [`ApiError::Refused`] when `what` was not deleted because it is in use.
pub(crate) fn check_deleted(what: &'static str, deleted: Deletion) -> Result<()> {
    match deleted {
        Deletion::Deleted => Ok(()),
        Deletion::InUse(by) => {
            let ids = by.into_iter().map(|one| match one {
                UsedBy::Agentable(kind, id) => id.public_id(&kind),
                UsedBy::Team(id) => id.to_string(),
            });
            let by = ids.collect::<Vec<_>>().join(", ");
            let why = format!(
                "this {what} is in use by {by}, and possibly by others; assign another agent or team there first"
            );
            Err(ApiError::Refused(ProblemCode::InUse, why))
        }
    }
}
