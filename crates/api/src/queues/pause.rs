//! `POST /v1/queues/{lane}/pause` and `…/resume`: workers claim nothing new of a paused lane.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use houston_protocol::queue::QueueResponse;
use houston_queue::Lane;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::queues::{lane_named, queues};
use crate::state::App;

endpoint! {
    PAUSE: post "/v1/queues/{lane}/pause" => pause,
    tag = "operate",
    operation_id = "pause_queue",
    summary = "Pause a lane: workers claim nothing new of it.",
    description = "Runs that workers hold go on, and what is posted waits. Workers read it within a second. Idempotent. Needs the scope \
                   `installation` besides `operate`.",
    params(("lane" = String, Path, description = "`interactive` or `background`.", example = "background")),
    responses((status = 200, description = "The lane.", body = QueueResponse)),
}

pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(lane): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    set(&app, caller, &lane, true).await.map(Json)
}

endpoint! {
    RESUME: post "/v1/queues/{lane}/resume" => resume,
    tag = "operate",
    operation_id = "resume_queue",
    summary = "Let a paused lane go on.",
    description = "Idempotent. Needs the scope `installation` besides `operate`.",
    params(("lane" = String, Path, description = "`interactive` or `background`.", example = "background")),
    responses((status = 200, description = "The lane.", body = QueueResponse)),
}

pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(lane): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    set(&app, caller, &lane, false).await.map(Json)
}

async fn set(app: &Arc<App>, caller: Caller, lane: &str, is_paused: bool) -> Result<QueueResponse, ApiError> {
    let lane = lane_named(lane)?;
    for cell in app.all_cells() {
        cell.api_store().set_lane_paused(Lane::from(lane).as_str(), is_paused).await?;
    }
    queues(app, caller, &[lane]).await?.1.pop().ok_or(ApiError::NotFound { what: "lane" })
}
