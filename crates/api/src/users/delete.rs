//! `DELETE /v1/users/{id}`: erases a user with everything that belongs to them. From the 202 on the user is not found;
//! workers delete the rows in the background, and the erasure reports the progress.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::id::UserId;
use houston_store::erasure::Target;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::erasures::request;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/users/{id}" => delete,
    tag = "users",
    operation_id = "delete_user",
    summary = "Erase a user with everything that belongs to them.",
    params(("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")),
    responses((status = 202, description = "The user is no longer found; the rows are deleted in the background.", body = houston_protocol::erasure::ErasureResponse)),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<UserId>,
) -> Result<Response, ApiError> {
    request(&app, caller, Target::User(id)).await
}
