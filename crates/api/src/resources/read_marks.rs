//! How far users have read their threads. A mark belongs to the thread, so it is the same on all devices of its user.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_protocol::read_mark::{MarkRead, ReadMarkResponse, UnreadResponse};
use houston_protocol::time::Time;
use houston_store::read_mark::{ReadMark, ReadUpTo};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::{AgentablePath, Id, Owner};
use crate::request::body::{Creation, OptionalBody};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[UNREAD, SET];

endpoint! {
    UNREAD: get "/v1/users/{id}/unread" for USER => unread,
    tag = "messages",
    operation_id = "get_unread",
    summary = "Get what a user has not read, in total and by thread.",
    params(("id" = houston_domain::id::UserId, Path, description = "Id of the user.")),
    responses(
        (status = 200, description = "The threads with something unread, among the newest 200.", body = UnreadResponse)
    ),
}

async fn unread(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<impl IntoResponse, ApiError> {
    app.store(caller).user(id).await?;
    let kinds = app.state.agent_types.values().filter(|kind| kind.conversational);
    let kinds: Vec<&str> = kinds.map(|kind| kind.kind.as_str()).collect();
    let (threads, has_more) = app.store(caller).unread_threads(id, &kinds).await?;
    Ok(Json(UnreadResponse {
        user_id: id,
        unread: threads.iter().map(|thread| thread.unread).sum(),
        threads: threads.into_iter().map(response).collect(),
        has_more,
    }))
}

endpoint! {
    SET: post "/v1/{kinds}/{id}/read" for AGENTABLE => set,
    tag = "messages",
    operation_id = "mark_read",
    summary = "Mark a thread as read, up to a message, a position, or its end. A mark only moves forward.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable.")
    ),
    request_body = Option<MarkRead>,
    responses(
        (status = 200, description = "How far the thread was read.", body = houston_protocol::read_mark::ReadMarkResponse)
    ),
}

/// Marks only move forward, so what devices say late or twice changes nothing.
async fn set(
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

fn response(mark: ReadMark) -> ReadMarkResponse {
    ReadMarkResponse {
        owner: Owner { kind: mark.kind, id: mark.agentable },
        last_seq: mark.last_seq,
        read_seq: mark.read_seq,
        unread: mark.unread,
        read_at: mark.read_at.map(Time),
    }
}
