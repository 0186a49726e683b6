//! `GET /v1/runs`: the runs of all agentables of the tenant, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RunId;
use houston_protocol::page::Page;
use houston_protocol::run_list::ListedRunResponse;
use houston_store::run_list::{ListedRun, RunFilter, RunPage};

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::missing_cells::across;
use crate::page::{List, PageQuery};
use crate::query::Query;
use crate::runs::filter::{FilterQuery, stored};
use crate::runs::response;
use crate::state::App;

endpoint! {
    LIST: get "/v1/runs" => list,
    tag = "runs",
    operation_id = "list_all_runs",
    summary = "List the runs of the tenant, newest first.",
    description = "A page reads at most 20,000 runs of the installation. One with fewer runs than `limit`, or none, has `has_more` if \
                   there may be older ones. Titles and texts of errors are for keys with the scope `read` besides `operate`.",
    params(
        ("status" = Option<String>, Query, description = "Only runs with one of these statuses, with commas between.", example = "failed,dead_lettered"),
        ("kind" = Option<String>, Query, description = "Only runs of agentables of this kind, as in an id before the underscore."),
        ("agent_id" = Option<houston_protocol::schema::AgentId>, Query, description = "Only runs of agentables that this agent answers for."),
        ("user_id" = Option<houston_protocol::schema::UserId>, Query, description = "Only runs of this user's agentables."),
        ("error_code" = Option<String>, Query, description = "Only runs with this error code. Runs that were given up because their workers died have `DEAD_LETTERED`.", example = "RATE_LIMITED"),
        ("fingerprint" = Option<String>, Query, description = "Only runs of the group of errors with this fingerprint, as `GET /v1/errors` names it.", example = "8c1f06d2b1a94e77"),
        ("since" = Option<houston_protocol::schema::Time>, Query, description = "Only runs that were accepted then or later."),
        ("until" = Option<houston_protocol::schema::Time>, Query, description = "Only runs that were accepted before."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of runs.", body = Page<ListedRunResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<FilterQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let filter = stored(query.filter()?);
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::AllRuns)?.map(RunId));
    let rows = i64::try_from(limit).unwrap_or(i64::MAX);
    let filter = &filter;
    let ask = |cell: Arc<App>| async move { Ok(cell.store(caller).find_runs(filter, before, rows).await?) };
    let (pages, missing) = across(&app, ask).await?;
    let found = merged(pages, limit);
    let next_cursor = found.next.map(cursor);
    let data = found.runs.into_iter().map(|run| listed(run, caller)).collect();
    Ok((missing, Json(Page { data, has_more: next_cursor.is_some(), next_cursor })))
}

pub(crate) fn cursor(next: RunId) -> String {
    List::AllRuns.cursor(next.0.as_u128())
}

/// The newest runs of all cells, of which none may be missing: for what changes them.
pub(crate) async fn find(
    app: &Arc<App>,
    caller: Caller,
    filter: &RunFilter,
    before: Option<RunId>,
    limit: usize,
) -> Result<RunPage, ApiError> {
    let rows = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut pages = Vec::new();
    for cell in app.all_cells() {
        pages.push(cell.store(caller).find_runs(filter, before, rows).await?);
    }
    Ok(merged(pages, limit))
}

/// One page of those of all cells: down to where the first of them ends.
fn merged(pages: Vec<RunPage>, limit: usize) -> RunPage {
    let end = pages.iter().filter_map(|page| page.next).max();
    let mut runs: Vec<ListedRun> = pages.into_iter().flat_map(|page| page.runs).collect();
    runs.sort_unstable_by_key(|listed| std::cmp::Reverse(listed.run.id));
    runs.retain(|listed| end.is_none_or(|end| listed.run.id >= end));
    let is_cut = runs.len() > limit;
    runs.truncate(limit);
    let next = if is_cut { runs.last().map(|last| last.run.id) } else { end };
    RunPage { runs, next }
}

fn listed(found: ListedRun, caller: Caller) -> ListedRunResponse {
    let kind = found.run.kind.clone();
    let mut run = response(found.run);
    if let Some(error) = run.error.as_mut().filter(|_| !caller.reads_contents()) {
        error.message = None;
    }
    ListedRunResponse {
        kind,
        run,
        title: if caller.reads_contents() { found.title } else { String::new() },
        user_id: found.user,
        agent_id: found.agent,
    }
}
