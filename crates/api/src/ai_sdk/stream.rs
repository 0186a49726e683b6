//! `GET /compat/ai-sdk/{target}/{chat_id}/stream`: what `resumeStream()` asks for.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::chunks::Chunks;
use super::{open, stream_path};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::events::get::client_position;
use crate::query::Query;
use crate::state::App;
use crate::threads::{Asker, find};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct After {
    after: Option<String>,
}

endpoint! {
    STREAM: get "/compat/ai-sdk/{target}/{chat_id}/stream" => stream,
    tag = "ai-sdk",
    operation_id = "resume_ai_sdk_chat",
    summary = "Stream the open run of a chat of the Vercel AI SDK from its start, or from a position.",
    params(
        ("target" = String, Path, description = "Who answers: a kind that is conversational, or an agent, by its name or id."),
        ("chat_id" = String, Path, description = "The client's id of the chat, or Houston's id of the conversation.", example = "chat-1"),
        ("after" = Option<String>, Query, description = "The `id` of the last event that the client has. By default the stream begins with the start of the run."),
        ("Houston-User" = Option<String>, Header, description = "Whose chat it is, if the key is of no user: the id of a user, or an external id."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it.")
    ),
    responses(
        (status = 200, description = "Chunks of the UI message stream v1, then `[DONE]`.", body = houston_protocol::ai_sdk::Chunk, content_type = "text/event-stream"),
        (status = 204, description = "No run is open, or there is no such chat."),
        (status = 429, description = "`too_many_streams`.")
    ),
}

pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    asker: Asker,
    Path((target, chat)): Path<(String, String)>,
    headers: HeaderMap,
    Query(After { after }): Query<After>,
) -> Result<Response, ApiError> {
    let at = client_position(&headers, after.as_deref())?;
    let Some(thread) = find(&app, &asker, &target, ("/chat_id", &chat)).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let store = thread.app.store(thread.caller);
    if at.is_none() && !store.agentable(&thread.path.kind, thread.path.id).await?.run_open {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let names = store.client_tools(thread.path.id).await?;
    open(thread, at, Chunks::new(names, HashSet::new()), stream_path(&target, &chat)).await
}
