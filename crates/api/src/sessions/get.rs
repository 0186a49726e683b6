//! `GET /v1/sessions/{id}`: one closed session.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::SessionId;
use houston_protocol::schema;
use houston_protocol::session::SessionResponse;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::sessions::response;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/sessions/{id}",
    tag = "sessions",
    operation_id = "get_session",
    summary = "Get a closed session.",
    params(
        ("id" = schema::SessionId, Path, description = "Id of the session.")
    ),
    responses(
        (status = 200, description = "The session.", body = SessionResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<SessionId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).session(id).await?)))
}
