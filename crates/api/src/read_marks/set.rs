//! `POST /v1/{kinds}/{id}/read`: the user has read the thread up to a message, a position, or its end. Marks only move
//! forward, so what devices say late or twice changes nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::read_mark::MarkRead;
use houston_store::read_mark::ReadUpTo;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::body::{Creation, OptionalBody};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::read_marks::response;
use crate::state::App;

endpoint! {
    SET: post "/v1/{kinds}/{id}/read" => set,
    tag = "messages",
    operation_id = "mark_read",
    summary = "Mark a thread as read, up to a message, a position, or its end. A mark only moves forward.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = Option<MarkRead>,
    responses(
        (status = 200, description = "How far the thread was read.", body = houston_protocol::read_mark::ReadMarkResponse)
    ),
}

pub(crate) async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    OptionalBody(Creation { value: body, .. }): OptionalBody<MarkRead>,
) -> Result<impl IntoResponse, ApiError> {
    if !path.conversational {
        return Err(ApiError::NotFound { what: "conversation" });
    }
    let up_to = match (body.message_id, body.seq) {
        (Some(_), Some(_)) => {
            return Err(ApiError::field("/seq", "give either `message_id` or `seq`, or neither"));
        }
        (Some(message), None) => ReadUpTo::Message(message),
        (None, Some(seq)) if seq < 0 => return Err(ApiError::field("/seq", "must be 0 or more")),
        (None, Some(seq)) => ReadUpTo::Seq(seq),
        (None, None) => ReadUpTo::Latest,
    };
    app.confirm(caller, &path).await?;
    app.store(caller).mark_read(path.id, up_to).await?;
    let mark = app.store(caller).read_marks(&[path.id]).await?.pop();
    mark.map(response).map(Json).ok_or(ApiError::NotFound { what: "agentable" })
}
