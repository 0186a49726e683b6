//! `/v1/{kinds}`: the operations that all kinds of agentables share.

pub(crate) mod create;
pub(crate) mod result;
pub(crate) mod tools;

use std::collections::HashMap;

use houston_domain::agentable::{AgentType, MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS};
use houston_domain::id::{AgentId, AgentableId, TeamId, UserId};
use houston_domain::read_mark::ReadMark;
use houston_domain::run::RunStatus;
use houston_domain::settable::StatusChange;
use houston_protocol::agentable::{AgentableResponse, UpdateAgentable};
use houston_protocol::problem::ProblemCode;
use houston_store::agentable::{Agentable, AgentableChange, AgentableFilter, StoredStatus};
use houston_store::cancel::ARCHIVED;
use houston_store::erasure::Target;
use houston_store::serving::{ServedBy, ServingChange};

use crate::error::with_article;
use crate::request::prelude::*;
use crate::resources::erasures::request;
use crate::resources::runs;

endpoints! {
    get "/v1/{kinds}" for NAMED => list,
    "list_agentables" in "agentables": "List the agentables of a kind, newest first.",
    params(
        ("user_id" = Option<UserId>, Query, description = "Only agentables of this user."),
        ("status" = Option<String>, Query, description = "Only agentables with this status, one of the statuses of the kind."),
        Paged,
    ),
    200 "A page of agentables." [Page<houston_protocol::agentable::AgentableResponse>];

    get "/v1/{kinds}/{id}" for AGENTABLE => async |ctx: Ctx, path: AgentablePath| read(&ctx, &path).await,
    "get_agentable" in "agentables": "Get an agentable.",
    200 "The agentable." [houston_protocol::agentable::AgentableResponse];

    patch "/v1/{kinds}/{id}" for AGENTABLE => change,
    "update_agentable" in "agentables": "Change title, description, status, agent or tools of an agentable; fields not given stay as they are.",
    body [UpdateAgentable],
    200 "The changed agentable." [houston_protocol::agentable::AgentableResponse];

    // From the 202 on the agentable is not found; workers delete the rows in the background, and the erasure reports the progress.
    // Copies (`fork`), messages sent to a parent or to the user's own agent, and memories are not erased.
    delete "/v1/{kinds}/{id}" for AGENTABLE =>
        async |ctx: Ctx, path: AgentablePath| request(&ctx, Target::Agentable(&path.kind, path.id)).await,
    "delete_agentable" in "agentables": "Erase an agentable with its tasks and everything that belongs to them.",
    202 "The agentable is no longer found; its rows are deleted in the background." [houston_domain::erasure::Erasure];

    post "/v1/{kinds}/{id}/cancel" for AGENTABLE => cancel,
    "cancel_agentable" in "agentables": "Cancel the open run of an agentable and the runs of all its tasks.",
    202 "The runs whose cancellation was requested." [houston_protocol::run::CancelledRunsResponse];

    post "/v1/{kinds}/{id}/archive" for AGENTABLE => archive,
    "archive_agentable" in "agentables": "Archive an agentable: cancel its run and its tasks, and delete its check-ins.",
    200 "The agentable after the change." [AgentableResponse],
    409 "`not_archivable`: the kind has no status `archived`.";

    post "/v1/{kinds}/{id}/unarchive" for AGENTABLE => unarchive,
    "unarchive_agentable" in "agentables": "Take an agentable out of the archive.",
    200 "The agentable after the change." [AgentableResponse],
    409 "`not_archivable`: the kind has no status `archived`.";

    get "/v1/{kinds}/{id}/tasks" for AGENTABLE => list_tasks,
    "list_tasks" in "agentables": "List the tasks of an agentable, newest first.",
    params(Paged),
    200 "A page of tasks." [Page<houston_protocol::agentable::AgentableResponse>];

    get "/v1/{kinds}/{id}/runs" for AGENTABLE => list_runs,
    "list_runs" in "runs": "List the runs of an agentable, newest first.",
    params(
        ("status" = Option<houston_domain::run::RunStatus>, Query, description = "Only runs with this status."),
        Paged,
    ),
    200 "A page of runs." [Page<houston_protocol::run::RunResponse>];
}

/// The query: page parameters and filters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    user_id: Option<String>,
    status: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

async fn list(ctx: Ctx, KindPath(kind): KindPath, Query(query): Query<Filter>) -> Result<impl IntoResponse> {
    let user = query.user_id.map(|id| {
        id.parse::<UserId>().map_err(|_| ApiError::parameter("user_id", "must be the id of a user, `user_…`"))
    });
    let statuses = query.status.map(|status| statuses(&kind, &status));
    let filter =
        AgentableFilter { user: ctx.caller.list_of(user.transpose()?)?, statuses: statuses.transpose()? };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Agentables)?.map(Into::into));
    if let Some(user) = filter.user {
        ctx.store().user(user).await?;
    }
    let mut found = ctx.store().agentables(&kind.kind, &filter, before, rows(limit)).await?;
    let next = NextPage::of(List::Agentables, limit, &mut found, |row: &Agentable| row.id.0.as_u128());
    Ok(Json(next.page(responses(&ctx, found).await?)))
}

/// The stored status and run status of agentables whose response has `status`.
fn statuses(kind: &AgentType, status: &str) -> Result<Vec<StoredStatus>> {
    if !kind.statuses.iter().any(|allowed| allowed == status) {
        let allowed = kind.statuses.join(", ");
        let detail = format!("no {} has this status; allowed: {allowed}", kind.kind);
        return Err(ApiError::parameter("status", detail));
    }
    let pairs = kind.pairs_with_status(status).into_iter();
    Ok(pairs.map(|(stored, run)| (stored.map(str::to_owned), run)).collect())
}

/// Changes title, description and status, and, from the next run on, who answers (`agent_id` or `team_id`; null for the default
/// agent of the kind) and the tools it may call (`tools`, a subset of its kind's; null for all of them).
async fn change(
    ctx: Ctx,
    path: AgentablePath,
    Change(body): Change<UpdateAgentable>,
) -> Result<impl IntoResponse> {
    let answers = body.agent_id.is_some() || body.team_id.is_some();
    let describes = body.title.is_some() || body.description.is_some();
    if !answers && !describes && body.status.is_none() && body.tools.is_none() {
        let detail =
            "nothing to change: give at least one of title, description, status, agent_id, team_id, tools";
        return Err(ApiError::field("", detail));
    }
    body.title.as_deref().map_or(Ok(()), |title| check_line("/title", title, MAX_TITLE_CHARS))?;
    if let Some(text) = &body.description {
        check_bytes("/description", text, MAX_DESCRIPTION_BYTES)?;
    }
    let status = body.status.as_deref().map(|wanted| status_change(&ctx, &path, wanted)).transpose()?;
    let before = ctx.store().agentable(&path.kind, path.id).await?;
    if let Some(names) = &body.tools {
        // A task may only use the tools its creator gave it; otherwise it could do more than the agent above it.
        if let Some((kind, parent)) = before.parent {
            let detail = format!(
                "cannot be changed here, they are inherited from {}; change its tools",
                parent.public_id(&kind)
            );
            return Err(ApiError::field("/tools", detail));
        }
        let names = names.as_deref().unwrap_or_default();
        tools::check(&ctx, &path.kind, "/tools", names).await?;
    }
    let named = (body.agent_id.flatten(), body.team_id.flatten());
    let served_by = match answers {
        true => Some(check_serving(&ctx, &path.kind, named).await?),
        false => None,
    };
    let change = AgentableChange {
        title: body.title,
        description: body.description,
        serving: ServingChange { served_by, tools: body.tools },
    };
    ctx.store().change_agentable(path.id, &change).await?;
    match status {
        Some(StatusChange::Archive) => {
            ctx.cancel_agentable(&path.kind, path.id, true).await?;
        }
        Some(StatusChange::Store(status)) => {
            ctx.store().store_status(&path.kind, path.id, status.as_deref(), None).await?;
        }
        None => {}
    }
    read(&ctx, &path).await
}

/// # Errors
/// [`ApiError::InvalidRequest`] with the statuses that may be set.
fn status_change(app: &App, path: &AgentablePath, wanted: &str) -> Result<StatusChange> {
    let unknown = || Err("cannot be set: this server has no such kind".to_owned());
    let kind = app.state.agent_types.get(&path.kind);
    let change = kind.map_or_else(unknown, |kind| kind.set_status(wanted));
    change.map_err(|reason| ApiError::field("/status", reason))
}

/// Archiving cancels the open run and all tasks below, and deletes the check-ins. Only for kinds that have the status `archived`.
async fn archive(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    check_archivable(&ctx, &path)?;
    ctx.cancel_agentable(&path.kind, path.id, true).await?;
    read(&ctx, &path).await
}

async fn unarchive(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    check_archivable(&ctx, &path)?;
    ctx.store().store_status(&path.kind, path.id, None, Some(ARCHIVED)).await?;
    read(&ctx, &path).await
}

fn check_archivable(app: &App, path: &AgentablePath) -> Result<()> {
    let kind = app.state.agent_types.get(&path.kind);
    if kind.is_some_and(|kind| kind.statuses.iter().any(|status| status == ARCHIVED)) {
        return Ok(());
    }
    let why = format!("{} cannot be archived; its kind has no status `archived`", with_article(&path.kind));
    Err(ApiError::Refused(ProblemCode::NotArchivable, why))
}

async fn read(ctx: &Ctx, path: &AgentablePath) -> Result<Json<AgentableResponse>> {
    let agentable = ctx.store().agentable(&path.kind, path.id).await?;
    // `responses` returns one response per agentable.
    let response = responses(ctx, vec![agentable]).await?.pop();
    response.map(Json).ok_or(ApiError::NotFound("agentable"))
}

/// Idempotent; without an open run it does nothing.
async fn cancel(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    Ok((StatusCode::ACCEPTED, Json(ctx.cancel_agentable(&path.kind, path.id, false).await?)))
}

async fn list_tasks(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(List::Tasks)?.map(Into::into));
    ctx.confirm(&path).await?;
    let mut tasks = ctx.store().tasks(path.id, before, rows(limit)).await?;
    let next = NextPage::of(List::Tasks, limit, &mut tasks, |row: &Agentable| row.id.0.as_u128());
    Ok(Json(next.page(responses(&ctx, tasks).await?)))
}

/// The query: page parameters and a status.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFilter {
    status: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

async fn list_runs(
    ctx: Ctx,
    path: AgentablePath,
    Query(RunFilter { status, limit, cursor }): Query<RunFilter>,
) -> Result<impl IntoResponse> {
    let status = status.as_deref().map(parse_status).transpose()?;
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.position(List::Runs)?);
    ctx.confirm(&path).await?;
    let runs = ctx.store().runs(path.id, status, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Runs, limit, runs, |run| run.first_seq, runs::response)))
}

fn parse_status(status: &str) -> Result<RunStatus> {
    RunStatus::from_name(status).ok_or_else(|| {
        let allowed: Vec<&str> = RunStatus::ALL.into_iter().map(RunStatus::as_str).collect();
        ApiError::parameter("status", format!("no run has this status; allowed: {}", allowed.join(", ")))
    })
}

/// Checks `agent_id` and `team_id`: that the agent or team exists, is enabled and has the kind `kind`. Without either, the default
/// agent of the kind answers.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it does not, or when both are given; the store's errors.
async fn check_serving(
    ctx: &Ctx,
    kind: &str,
    (agent, team): (Option<AgentId>, Option<TeamId>),
) -> Result<ServedBy> {
    if agent.is_some() && team.is_some() {
        return Err(ApiError::field("/team_id", "cannot be combined with agent_id: give one of the two"));
    }
    if let Some(id) = agent {
        let found = ctx.store().agents_among(&[id]).await?.pop();
        let found = found.ok_or_else(|| ApiError::field("/agent_id", format!("there is no agent {id}")))?;
        check_kind("/agent_id", &found.name, &found.kind, kind)?;
        if !found.enabled {
            let detail = format!("`{}` is disabled; enable it first", found.name);
            return Err(ApiError::field("/agent_id", detail));
        }
    }
    if let Some(id) = team {
        let found = ctx.store().teams(Some(id), None, 1).await?.pop();
        let found = found.ok_or_else(|| ApiError::field("/team_id", format!("there is no team {id}")))?;
        check_kind("/team_id", &found.name, &found.kind, kind)?;
    }
    Ok(ServedBy { agent, team })
}

fn check_kind(pointer: &str, name: &str, has: &str, wanted: &str) -> Result<()> {
    if has == wanted {
        return Ok(());
    }
    let reason = format!("`{name}` is of the kind `{has}`; it must be of the kind `{wanted}`");
    Err(ApiError::field(pointer, reason))
}

/// The responses for `agentables`; tasks have their results, and those with messages say what is unread.
async fn responses(ctx: &Ctx, agentables: Vec<Agentable>) -> Result<Vec<AgentableResponse>> {
    let tasks: Vec<AgentableId> =
        agentables.iter().filter(|one| one.parent.is_some()).map(|one| one.id).collect();
    let results = if tasks.is_empty() { Vec::new() } else { ctx.store().task_results(&tasks).await? };
    let mut results: HashMap<_, _> = results.into_iter().collect();
    let mut marks = read_marks(ctx, &agentables).await?;
    let response = |agentable: Agentable| {
        let (stored, mark) = (agentable.status, marks.remove(&agentable.id));
        // Of a kind that this server does not have, the status is the stored one.
        let status = match ctx.state.agent_types.get(&agentable.kind) {
            Some(kind) => kind.status(stored.as_deref(), agentable.run_status),
            None => stored,
        };
        AgentableResponse {
            id: AgentableId::public_id(agentable.id, &agentable.kind),
            user_id: agentable.user,
            parent_id: agentable.parent.map(|(kind, id)| id.public_id(&kind)),
            title: agentable.title,
            description: agentable.description,
            status,
            run_id: agentable.run,
            agent_id: agentable.served_by.agent,
            team_id: agentable.served_by.team,
            tools: agentable.tools,
            result: results.remove(&agentable.id),
            message: None,
            cost: agentable.cost.total.map(|cost| cost.normalize()),
            unpriced_calls: agentable.cost.unpriced_calls,
            last_seq: Some(agentable.last_seq),
            read_seq: mark.as_ref().map(|mark| mark.read_seq),
            unread: mark.map(|mark| mark.unread),
            created_at: Time(agentable.created_at),
        }
    };
    Ok(agentables.into_iter().map(response).collect())
}

/// How far those with messages were read.
async fn read_marks(ctx: &Ctx, agentables: &[Agentable]) -> Result<HashMap<AgentableId, ReadMark>> {
    let kinds = &ctx.state.agent_types;
    let has_messages = |one: &&Agentable| kinds.get(&one.kind).is_some_and(|kind| kind.conversational);
    let threads: Vec<AgentableId> = agentables.iter().filter(has_messages).map(|one| one.id).collect();
    if threads.is_empty() {
        return Ok(HashMap::new());
    }
    let marks = ctx.store().read_marks(&threads).await?;
    Ok(marks.into_iter().map(|mark| (mark.owner.id, mark)).collect())
}
