//! `GET /v1/messages/{id}`: one message and its status.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::MessageId;
use houston_protocol::message::MessageResponse;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::messages::response;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/messages/{id}",
    tag = "messages",
    operation_id = "get_message",
    summary = "Get a message and its status.",
    params(
        ("id" = schema::MessageId, Path, description = "Id of the message.")
    ),
    responses(
        (status = 200, description = "The message.", body = MessageResponse)
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<MessageId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).message(id).await?)))
}
