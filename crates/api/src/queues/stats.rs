//! `GET /v1/queues/{lane}/stats`: the work of one lane, as autoscalers read it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::queues::{lane_named, queues};
use crate::state::App;

endpoint! {
    STATS: get "/v1/queues/{lane}/stats" => stats,
    tag = "operate",
    operation_id = "get_queue_stats",
    summary = "Get the work of one lane, for autoscalers.",
    description = "`scaling.pending_slots` and `scaling.wanted_slots` are what KEDA's metrics-api trigger reads as `valueLocation`.",
    params(("lane" = String, Path, description = "`interactive` or `background`.", example = "interactive")),
    responses((status = 200, description = "The work of the lane.", body = houston_protocol::queue::QueueResponse)),
}

pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(lane): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let lane = lane_named(&lane)?;
    let (missing, mut lanes) = queues(&app, caller, &[lane]).await?;
    let lane = lanes.pop().ok_or(ApiError::NotFound { what: "lane" })?;
    Ok((missing, Json(lane)))
}
