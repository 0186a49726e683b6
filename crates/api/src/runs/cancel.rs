//! `POST /v1/runs/{id}/cancel`: asks whoever drives the run to stop. Asking twice is asking once; a run that was
//! cancelled is what was asked for; one that ended otherwise can no longer be.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::agentable::Urgency;
use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use houston_protocol::run::RunResponse;
use houston_protocol::schema;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::runs::response;
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/runs/{id}/cancel",
    tag = "runs",
    operation_id = "cancel_run",
    summary = "Asks a run to stop",
    params(
        ("id" = schema::RunId, Path)
    ),
    responses(
        (status = 202, description = "It was asked, now or before", body = RunResponse),
        (status = 409, description = "`invalid_state`: it ended otherwise")
    ),
)]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<RunId>,
) -> Result<impl IntoResponse, ApiError> {
    let asked = app.store().cancel_run(caller.tenant, id).await?;
    if let Some((agentable, kind)) = &asked {
        let urgency = app.state.agent_types.get(kind).map_or(Urgency::Interactive, |kind| kind.urgency);
        app.cancel(*agentable, id);
        app.ring(*agentable, urgency);
    }
    let run = app.store().run(caller.tenant, id).await?;
    if asked.is_none() && run.status != RunStatus::Cancelled {
        return Err(ApiError::InvalidState { status: run.status });
    }
    Ok((StatusCode::ACCEPTED, Json(response(run))))
}
