//! `GET /v1/users/{id}/unread`: what a user has not read, in all threads.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_protocol::read_mark::UnreadResponse;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::read_marks::response;
use crate::state::App;

endpoint! {
    UNREAD: get "/v1/users/{id}/unread" => unread,
    tag = "messages",
    operation_id = "get_unread",
    summary = "Get what a user has not read, in total and by thread.",
    params(("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")),
    responses(
        (status = 200, description = "The threads with something unread, among the newest 200.", body = UnreadResponse)
    ),
}

pub(crate) async fn unread(
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
