//! `GET /v1/runs/{id}?wait=30`: one run; with `wait`, once it has ended or waits for a person.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use houston_domain::id::RunId;
use houston_store::Error;
use houston_store::run::Run;
use serde::Deserialize;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::deadline::Deadline;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::query::Query;
use crate::runs::response;
use crate::runs::wait::wait;
use crate::state::App;

/// The longest wait, in seconds: proxies take longer silence for a broken connection.
const MAX_WAIT_S: u64 = 60;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    wait: Option<String>,
}

endpoint! {
    GET: get "/v1/runs/{id}" => get,
    tag = "runs",
    operation_id = "get_run",
    summary = "Get a run; with `wait`, once it has ended or waits for a person.",
    params(
        ("id" = houston_protocol::schema::RunId, Path, description = "Id of the run."),
        ("wait" = Option<u8>, Query, minimum = 0, maximum = 60, description = "Seconds to wait until the run has ended or waits for a person; then it is returned as it is. 0 by default.")
    ),
    responses(
        (status = 200, description = "The run.", body = houston_protocol::run::RunResponse),
        (status = 429, description = "`too_many_streams`: the process or the tenant has too many open streams and waiting requests.")
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
    Query(options): Query<Options>,
    Extension(deadline): Extension<Deadline>,
) -> Result<impl IntoResponse, ApiError> {
    let within = seconds(options.wait.as_deref())?;
    if !within.is_zero() {
        deadline.restart_after(within);
        wait(&app, caller, id, within).await?;
        deadline.restart_after(Duration::ZERO);
    }
    Ok(Json(response(run(&app, caller, id).await?)))
}

/// The run. One that opens when the run before it has ended, since that is being cancelled, is queued.
async fn run(app: &App, caller: Caller, id: RunId) -> Result<Run, ApiError> {
    let store = || app.store(caller);
    let missing = match store().run(id).await {
        Err(missing @ Error::NotFound { .. }) => missing,
        run => return Ok(run?),
    };
    match store().run(id.predecessor()).await {
        Ok(before) if before.ended_at.is_none() && before.cancel_requested => Ok(before.followed_by(id)),
        // It may have opened meanwhile.
        Ok(before) if before.ended_at.is_some() => Ok(store().run(id).await?),
        Ok(_) | Err(Error::NotFound { .. }) => Err(missing.into()),
        Err(error) => Err(error.into()),
    }
}

fn seconds(given: Option<&str>) -> Result<Duration, ApiError> {
    let Some(given) = given else { return Ok(Duration::ZERO) };
    let seconds = given.parse().ok().filter(|seconds| *seconds <= MAX_WAIT_S);
    seconds.map(Duration::from_secs).ok_or_else(|| {
        ApiError::parameter("wait", format!("must be a number of seconds from 0 to {MAX_WAIT_S}"))
    })
}
