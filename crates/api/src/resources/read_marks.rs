//! How far users have read their threads. A mark belongs to the thread, so it is the same on all devices of its user.

use houston_domain::id::UserId;
use houston_protocol::read_mark::{MarkRead, UnreadResponse};
use houston_store::read_mark::ReadUpTo;

use crate::request::prelude::*;

endpoints! {
    get "/v1/users/{id}/unread" for USER => unread,
    "get_unread" in "messages": "Get what a user has not read, in total and by thread.",
    200 "The threads with something unread, among the newest 200." [UnreadResponse];

    post "/v1/{kinds}/{id}/read" for AGENTABLE => set,
    "mark_read" in "messages": "Mark a thread as read, up to a message, a position, or its end. A mark only moves forward.",
    body [Option<MarkRead>],
    200 "How far the thread was read." [houston_domain::read_mark::ReadMark];
}

async fn unread(ctx: Ctx, Id(id): Id<UserId>) -> Result<impl IntoResponse> {
    ctx.store().user(id).await?;
    let kinds = ctx.state.agent_types.values().filter(|kind| kind.conversational);
    let kinds: Vec<&str> = kinds.map(|kind| kind.kind.as_str()).collect();
    let (threads, has_more) = ctx.store().unread_threads(id, &kinds).await?;
    Ok(Json(UnreadResponse {
        user_id: id,
        unread: threads.iter().map(|thread| thread.unread).sum(),
        threads,
        has_more,
    }))
}

/// Marks only move forward, so what devices say late or twice changes nothing.
async fn set(
    ctx: Ctx,
    path: AgentablePath,
    OptionalBody(Creation { value: body, .. }): OptionalBody<MarkRead>,
) -> Result<impl IntoResponse> {
    ensure!(path.conversational, ApiError::NotFound("conversation"));
    let up_to = match (body.message_id, body.seq) {
        (Some(_), Some(_)) => {
            return Err(ApiError::field("/seq", "give either `message_id` or `seq`, or neither"));
        }
        (Some(message), None) => ReadUpTo::Message(message),
        (None, Some(seq)) if seq < 0 => return Err(ApiError::field("/seq", "must be 0 or more")),
        (None, Some(seq)) => ReadUpTo::Seq(seq),
        (None, None) => ReadUpTo::Latest,
    };
    ctx.confirm(&path).await?;
    ctx.store().mark_read(path.id, up_to).await?;
    let mark = ctx.store().read_marks(&[path.id]).await?.pop();
    mark.map(Json).ok_or(ApiError::NotFound("agentable"))
}
