//! `POST /v1/runs/cancel` and `POST /v1/runs/retry`: many runs at once, by their ids or by a filter. With `dry_run` they only say how
//! many it would be.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use houston_domain::scope::Scope;
use houston_protocol::run_list::{ChangeRuns, ChangedRunsResponse, RunsFilter, SkippedRun};
use houston_store::run_list::RunFilter;

use crate::auth::Caller;
use crate::body::{Creation, check_text};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, PageQuery};
use crate::runs::filter::{NO_FINGERPRINT, is_fingerprint, stored};
use crate::runs::list::{cursor, find};
use crate::runs::retry::{cancel_one, retry_one};
use crate::state::App;

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
    fn narrowed(self, mut filter: RunsFilter) -> RunFilter {
        let possible: &[RunStatus] = match self {
            Self::Cancel => &[RunStatus::Queued, RunStatus::Running, RunStatus::Retrying, RunStatus::Waiting],
            Self::Retry => &[RunStatus::Retrying, RunStatus::Failed, RunStatus::DeadLettered],
        };
        let asked = filter.status.take();
        let is_asked = |status: &RunStatus| asked.as_ref().is_none_or(|asked| asked.contains(status));
        filter.status = Some(possible.iter().copied().filter(is_asked).collect());
        RunFilter { is_not_cancelled: true, ..stored(filter) }
    }
}

endpoint! {
    CANCEL: post "/v1/runs/cancel" => cancel,
    tag = "runs",
    operation_id = "cancel_runs",
    summary = "Cancel many runs, by ids or by a filter.",
    description = "With `dry_run` nothing is changed: `matched` says how many runs match. Needs the scope `post` besides `operate`.",
    request_body = ChangeRuns,
    responses((status = 200, description = "What was requested.", body = ChangedRunsResponse)),
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Creation { value: request, .. }: Creation<ChangeRuns>,
) -> Result<impl IntoResponse, ApiError> {
    change(&app, caller, Change::Cancel, request).await.map(Json)
}

endpoint! {
    RETRY: post "/v1/runs/retry" => retry,
    tag = "runs",
    operation_id = "retry_runs",
    summary = "Try many runs again, by ids or by a filter.",
    description = "A run that waits for its next attempt gets it now. For a failed run, or one that was given up, what its user wrote \
                   last is posted again, once, and opens a new run, unless its agentable has run since. With `dry_run` nothing is \
                   changed: `matched` says how many runs match. Needs the scope `post` besides `operate`.",
    request_body = ChangeRuns,
    responses((status = 200, description = "What was done.", body = ChangedRunsResponse)),
}

pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    caller: Caller,
    Creation { value: request, .. }: Creation<ChangeRuns>,
) -> Result<impl IntoResponse, ApiError> {
    change(&app, caller, Change::Retry, request).await.map(Json)
}

async fn change(
    app: &Arc<App>,
    caller: Caller,
    change: Change,
    request: ChangeRuns,
) -> Result<ChangedRunsResponse, ApiError> {
    // One run needs this scope, too: a retry posts a message, and a cancellation ends the work of a user.
    caller.needs(Scope::Post)?;
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
            let (runs, next) = matching(app, caller, &filter, before, dry_run).await?;
            let count = runs.len() as u64;
            (runs, count, next.map(cursor))
        }
        _ => return Err(ApiError::field("", "needs either `ids` or `filter`")),
    };
    let (mut changed, mut skipped) = (0, Vec::new());
    if !dry_run {
        for run_id in runs {
            let done = match change {
                Change::Cancel => cancel_one(app, caller, run_id).await?,
                Change::Retry => retry_one(app, caller, run_id).await?,
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
    app: &Arc<App>,
    caller: Caller,
    filter: &RunFilter,
    mut before: Option<RunId>,
    counts: bool,
) -> Result<(Vec<RunId>, Option<RunId>), ApiError> {
    let most = if counts { PAGES * COUNTED } else { MOST };
    let mut runs = Vec::new();
    for _ in 0..PAGES {
        let page = find(app, caller, filter, before, (most - runs.len()).min(COUNTED)).await?;
        runs.extend(page.runs.into_iter().map(|listed| listed.run.id));
        before = page.next;
        if before.is_none() || runs.len() >= most {
            break;
        }
    }
    Ok((runs, before))
}
