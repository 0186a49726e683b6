//! `POST /v1/runs/{id}/cancel`: requests the cancellation of a run. Idempotent: also succeeds if the run has been
//! cancelled already; fails if it has ended with another status.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::agentable::Urgency;
use houston_domain::id::RunId;
use houston_domain::run::RunStatus;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::runs::response;
use crate::state::App;

endpoint! {
    CANCEL: post "/v1/runs/{id}/cancel" => cancel,
    tag = "runs",
    operation_id = "cancel_run",
    summary = "Cancel a run.",
    params(
        ("id" = houston_protocol::schema::RunId, Path, description = "Id of the run.")
    ),
    responses(
        (status = 202, description = "The cancellation was requested, now or before.", body = houston_protocol::run::RunResponse),
        (status = 409, description = "`invalid_state`: the run has ended with another status.")
    ),
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let asked = app.store(caller).cancel_run(id).await?;
    if let Some((agentable, kind)) = &asked {
        let urgency = app.state.agent_types.get(kind).map_or(Urgency::Interactive, |kind| kind.urgency);
        app.publish_cancel(*agentable, id);
        app.send_hint(*agentable, urgency);
    }
    let run = app.store(caller).run(id).await?;
    if asked.is_none() && run.status != RunStatus::Cancelled {
        return Err(ApiError::InvalidState { status: run.status });
    }
    Ok((StatusCode::ACCEPTED, Json(response(run))))
}
