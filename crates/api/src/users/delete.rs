//! `DELETE /v1/users/{id}`: erases a user with everything of theirs. 202: from now on nobody finds it; workers delete
//! the rows, and the erasure says how far they are.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::id::UserId;
use houston_protocol::erasure::ErasureResponse;
use houston_protocol::schema;
use houston_store::erasure::Target;

use crate::auth::Caller;
use crate::erasures::request;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

#[utoipa::path(
    delete,
    path = "/v1/users/{id}",
    tag = "users",
    operation_id = "delete_user",
    summary = "Erases a user with everything of theirs",
    params(("id" = schema::UserId, Path)),
    responses((status = 202, description = "Nobody finds the user any more; the erasure goes on", body = ErasureResponse)),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<Response, ApiError> {
    request(&app, caller, Target::User(id)).await
}
