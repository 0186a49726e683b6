//! `POST /compat/ai-sdk/{target}/{chat_id}/cancel`: cancels the open run of a chat. `stop()` only disconnects.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;
use crate::threads::{Asker, find};

endpoint! {
    CANCEL: post "/compat/ai-sdk/{target}/{chat_id}/cancel" => cancel,
    tag = "ai-sdk",
    operation_id = "cancel_ai_sdk_chat",
    summary = "Cancel the open run of a chat of the Vercel AI SDK, and the runs of its tasks.",
    params(
        ("target" = String, Path, description = "Who answers: a kind that is conversational, or an agent, by its name or id."),
        ("chat_id" = String, Path, description = "The client's id of the chat, or Houston's id of the conversation.", example = "chat-1"),
        ("Houston-User" = Option<String>, Header, description = "Whose chat it is, if the key is of no user: the id of a user, or an external id.")
    ),
    responses(
        (status = 202, description = "The runs whose cancellation was requested.", body = houston_protocol::run::CancelledRunsResponse)
    ),
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path((target, chat)): Path<(String, String)>,
) -> Result<impl IntoResponse, ApiError> {
    let thread = find(&app, &asker, &target, ("/chat_id", &chat)).await?;
    let thread = thread.ok_or(ApiError::NotFound { what: "chat" })?;
    Ok((StatusCode::ACCEPTED, Json(thread.cancel().await?)))
}
