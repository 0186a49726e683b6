//! `GET /v1/sessions/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::SessionId;
use houston_protocol::schema;
use houston_protocol::session::SessionResponse;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::sessions::response;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/sessions/{id}",
    tag = "sessions",
    operation_id = "get_session",
    summary = "A closed session",
    params(
        ("id" = schema::SessionId, Path)
    ),
    responses(
        (status = 200, description = "The session", body = SessionResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<SessionId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store().session(caller.tenant, id).await?)))
}
