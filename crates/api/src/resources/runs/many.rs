//! `/v1/runs`: the runs of all agentables of the tenant, newest first; and `POST /v1/runs/cancel` and `POST /v1/runs/retry`, which
//! change many runs at once, by their ids or by a filter. With `dry_run` they only say how many it would be.

use houston_domain::id::{AgentableId, RunId, shard};
use houston_domain::run::{ListedRun, RunFilter, RunStatus};
use houston_domain::scope::Scope;
use houston_protocol::page::Page;
use houston_protocol::run_list::{ChangeRuns, ChangedRunsResponse, SkippedRun};
use houston_store::run_list::RunPage;
use houston_store::run_retry::{DOUBLE_TEXTING, Retry};
use serde_json::json;

use crate::caller::Caller;
use crate::request::prelude::*;
use crate::request::query::{check_parameter, clamped, id, time};
use crate::resources::messages::{new_post, store_offering};
use crate::resources::plans::create::make_again;
use crate::resources::runs::response;

endpoints! {
    get "/v1/runs" for TENANT.all(Scope::Operate) => list,
    "list_all_runs" in "runs": "List the runs of the tenant, newest first.",
    description = "A page reads at most 20,000 runs of the installation. One with fewer runs than `limit`, or none, has `has_more` if \
                   there may be older ones. Titles and texts of errors are for keys with the scope `read` besides `operate`.",
    params(
        ("status" = Option<String>, Query, description = "Only runs with one of these statuses, with commas between.", example = "failed,dead_lettered"),
        ("kind" = Option<String>, Query, description = "Only runs of agentables of this kind, as in an id before the underscore."),
        ("agent_id" = Option<AgentId>, Query, description = "Only runs of agentables that this agent answers for."),
        ("user_id" = Option<UserId>, Query, description = "Only runs of this user's agentables."),
        ("error_code" = Option<String>, Query, description = "Only runs with this error code. Runs that were given up because their workers died have `DEAD_LETTERED`.", example = "RATE_LIMITED"),
        ("fingerprint" = Option<String>, Query, description = "Only runs of the group of errors with this fingerprint, as `GET /v1/errors` names it.", example = "8c1f06d2b1a94e77"),
        ("since" = Option<houston_protocol::time::Time>, Query, description = "Only runs that were accepted then or later."),
        ("until" = Option<houston_protocol::time::Time>, Query, description = "Only runs that were accepted before."),
        Paged,
    ),
    200 "A page of runs." [Page<houston_protocol::run_list::ListedRunResponse>];

    post "/v1/runs/cancel" for TENANT.all(Scope::Operate) =>
        async |ctx: Ctx, Sent(runs): Sent<ChangeRuns>| change(&ctx, Change::Cancel, runs).await.map(Json),
    "cancel_runs" in "runs": "Cancel many runs, by ids or by a filter.",
    description = "With `dry_run` nothing is changed: `matched` says how many runs match. Needs the scope `post` besides `operate`.",
    body [ChangeRuns],
    200 "What was requested." [ChangedRunsResponse];

    post "/v1/runs/retry" for TENANT.all(Scope::Operate) =>
        async |ctx: Ctx, Sent(runs): Sent<ChangeRuns>| change(&ctx, Change::Retry, runs).await.map(Json),
    "retry_runs" in "runs": "Try many runs again, by ids or by a filter.",
    description = "A run that waits for its next attempt gets it now. For a failed run, or one that was given up, what its user wrote \
                   last is posted again, once, and opens a new run, unless its agentable has run since. With `dry_run` nothing is \
                   changed: `matched` says how many runs match. Needs the scope `post` besides `operate`.",
    body [ChangeRuns],
    200 "What was done." [ChangedRunsResponse];
}

async fn list(ctx: Ctx, Query(query): Query<FilterQuery>) -> Result<impl IntoResponse> {
    let filter = query.filter()?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::AllRuns)?.map(RunId));
    let rows = i64::try_from(limit).unwrap_or(i64::MAX);
    let filter = &filter;
    let ask =
        |cell: Arc<App>| async move { Ok(cell.store(ctx.caller).find_runs(filter, before, rows).await?) };
    let (pages, missing) = across(&ctx, ask).await?;
    let found = merged(pages, limit);
    let next_cursor = found.next.map(cursor);
    let data = found.runs.into_iter().map(|run| listed(run, ctx.caller)).collect();
    Ok((missing, Json(Page { data, has_more: next_cursor.is_some(), next_cursor })))
}

fn cursor(next: RunId) -> String {
    List::AllRuns.cursor(next.0.as_u128())
}

/// The newest runs of all cells, of which none may be missing: for what changes them.
async fn find(ctx: &Ctx, filter: &RunFilter, before: Option<RunId>, limit: usize) -> Result<RunPage> {
    let rows = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut pages = Vec::new();
    for cell in ctx.all_cells() {
        pages.push(cell.store(ctx.caller).find_runs(filter, before, rows).await?);
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

fn listed(mut found: ListedRun, caller: Caller) -> ListedRun {
    if !caller.reads_contents() {
        found.title.clear();
        if let Some(error) = &mut found.run.error {
            error.message = None;
        }
    }
    ListedRun { run: response(found.run), ..found }
}

/// The query of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterQuery {
    status: Option<String>,
    kind: Option<String>,
    agent_id: Option<String>,
    user_id: Option<String>,
    error_code: Option<String>,
    fingerprint: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

impl FilterQuery {
    /// # Errors
    /// [`ApiError::InvalidRequest`] when a parameter cannot be read.
    fn filter(&self) -> Result<RunFilter> {
        let read = |names: &str| names.split(',').map(status).collect::<Result<Vec<_>, _>>();
        let statuses = self.status.as_deref().map(read);
        for (name, given) in [("kind", &self.kind), ("error_code", &self.error_code)] {
            check_parameter(name, given.as_deref())?;
        }
        if self.fingerprint.as_deref().is_some_and(|given| !is_fingerprint(given)) {
            return Err(ApiError::parameter("fingerprint", NO_FINGERPRINT));
        }
        Ok(RunFilter {
            status: statuses.transpose()?,
            kind: self.kind.clone(),
            agent_id: id("agent_id", self.agent_id.as_deref())?,
            user_id: id("user_id", self.user_id.as_deref())?,
            error_code: self.error_code.clone(),
            fingerprint: self.fingerprint.clone(),
            since: time("since", self.since.as_deref())?.map(Time),
            until: time("until", self.until.as_deref())?.map(Time),
            is_not_cancelled: false,
        })
    }
}

/// What is wrong with a text that is no fingerprint.
const NO_FINGERPRINT: &str =
    "must be a fingerprint as `GET /v1/errors` has it: 16 hexadecimal digits, in lower case";

fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn status(name: &str) -> Result<RunStatus> {
    RunStatus::from_name(name.trim()).ok_or_else(|| {
        let allowed: Vec<&str> = RunStatus::ALL.into_iter().map(RunStatus::as_str).collect();
        ApiError::parameter("status", format!("must be statuses with commas between: {}", allowed.join(", ")))
    })
}

/// The most runs that one request changes: so it ends well within the time limit of requests.
const MOST: usize = 100;
/// The most pages of a filter that one request reads, and runs on a page when they are only counted.
const PAGES: usize = 10;
const COUNTED: usize = 1_000;

/// What is done with the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Cancel,
    Retry,
}

impl Change {
    /// The filter, without runs with which nothing could be done.
    fn narrowed(self, filter: RunFilter) -> RunFilter {
        let possible: &[RunStatus] = match self {
            Self::Cancel => &[RunStatus::Queued, RunStatus::Running, RunStatus::Retrying, RunStatus::Waiting],
            Self::Retry => &[RunStatus::Retrying, RunStatus::Failed, RunStatus::DeadLettered],
        };
        let asked = &filter.status;
        let is_asked = |status: &RunStatus| asked.as_ref().is_none_or(|asked| asked.contains(status));
        let status = Some(possible.iter().copied().filter(is_asked).collect());
        let [since, until] = [filter.since, filter.until].map(|time| time.map(|time| Time(clamped(time.0))));
        RunFilter { status, since, until, is_not_cancelled: true, ..filter }
    }
}

async fn change(ctx: &Ctx, change: Change, request: ChangeRuns) -> Result<ChangedRunsResponse> {
    // One run needs this scope, too: a retry posts a message, and a cancellation ends the work of a user.
    ctx.caller.needs(Scope::Post)?;
    let dry_run = request.dry_run;
    let (runs, matched, next_cursor) = match (request.ids, request.filter) {
        (Some(ids), None) if ids.len() <= MOST => {
            let count = ids.len() as u64;
            (ids, count, None)
        }
        (Some(_), None) => return Err(ApiError::field("/ids", format!("has more than {MOST} runs"))),
        (None, Some(filter)) => {
            for (pointer, given) in
                [("/filter/kind", &filter.kind), ("/filter/error_code", &filter.error_code)]
            {
                check_text(pointer, given.as_deref().unwrap_or_default())?;
            }
            if filter.fingerprint.as_deref().is_some_and(|given| !is_fingerprint(given)) {
                return Err(ApiError::field("/filter/fingerprint", NO_FINGERPRINT));
            }
            let page = PageQuery { limit: None, cursor: request.cursor };
            let before = page.id(List::AllRuns)?.map(RunId);
            let filter = change.narrowed(filter);
            let (runs, next) = matching(ctx, &filter, before, dry_run).await?;
            let count = runs.len() as u64;
            (runs, count, next.map(cursor))
        }
        _ => return Err(ApiError::field("", "needs either `ids` or `filter`")),
    };
    let (mut changed, mut skipped) = (0, Vec::new());
    if !dry_run {
        for run_id in runs {
            let done = match change {
                Change::Cancel => cancel_one(ctx, run_id).await?,
                Change::Retry => retry_one(ctx, run_id).await?,
            };
            match done {
                Ok(()) => changed += 1,
                Err(reason) => skipped.push(SkippedRun { run_id, reason: reason.to_owned() }),
            }
        }
    }
    Ok(ChangedRunsResponse { dry_run, matched, changed, skipped, next_cursor })
}

/// The runs that match: as many as one request changes, or counts. Pages without any are passed over.
async fn matching(
    ctx: &Ctx,
    filter: &RunFilter,
    mut before: Option<RunId>,
    counts: bool,
) -> Result<(Vec<RunId>, Option<RunId>)> {
    let most = if counts { PAGES * COUNTED } else { MOST };
    let mut runs = Vec::new();
    for _ in 0..PAGES {
        let page = find(ctx, filter, before, (most - runs.len()).min(COUNTED)).await?;
        runs.extend(page.runs.into_iter().map(|listed| listed.run.id));
        before = page.next;
        if before.is_none() || runs.len() >= most {
            break;
        }
    }
    Ok((runs, before))
}

type Done = Result<(), &'static str>;

/// Requests the cancellation of a run.
async fn cancel_one(ctx: &Ctx, run: RunId) -> Result<Done> {
    let ctx = ctx.with_shard(shard(run.0));
    Ok(match if_found(ctx.cancel_run(run).await)? {
        Some(true) => Ok(()),
        Some(false) => Err("ended"),
        None => Err("not_found"),
    })
}

/// Tries a run again.
async fn retry_one(ctx: &Ctx, run: RunId) -> Result<Done> {
    let ctx = ctx.with_shard(shard(run.0));
    let Some(retry) = if_found(ctx.store().retry_run(run).await)? else { return Ok(Err("not_found")) };
    match retry {
        Retry::Due { agentable, kind } => {
            let urgency = ctx.urgency(&kind);
            ctx.state.hints.send(urgency.into(), houston_queue::Hint::run(agentable));
            Ok(Ok(()))
        }
        Retry::Repeat { agentable, kind, content } => repeat(&ctx, run, (&kind, agentable), &content).await,
        Retry::MakeAgain { plan } => {
            let made = make_again(&ctx, plan, &Key::of_retry(run)).await?;
            Ok(made.ok_or("refused"))
        }
        Retry::No(reason) => Ok(Err(reason.as_str())),
    }
}

/// Posts the message again, once for each failed run.
async fn repeat(
    ctx: &Ctx,
    run: RunId,
    (kind, agentable): (&str, AgentableId),
    content: &str,
) -> Result<Done> {
    let path = AgentablePath::of_kind(&ctx.state.agent_types, kind, agentable);
    let Some(path) = path.filter(|path| path.conversational) else { return Ok(Err("not_conversational")) };
    let key = Key::of_retry(run);
    let metadata = json!({"retry_of": run});
    let mut post = new_post(ctx, &path, content.to_owned(), metadata, Some(DOUBLE_TEXTING));
    match store_offering(ctx, &path, &mut post, None, Some(&key)).await {
        Ok(_) => Ok(Ok(())),
        Err(ApiError::RateLimited { .. } | ApiError::TooManyPending { .. }) => Ok(Err("refused")),
        Err(error) => Err(error),
    }
}
