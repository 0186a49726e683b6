//! `DELETE /v1/client-tokens/{id}`: ends a client token before it expires. Its requests are refused, and its streams end, within
//! `server.key_cache_s`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::{ApiKeyId, shard};
use houston_store::Error;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/client-tokens/{id}" => delete,
    tag = "keys",
    operation_id = "delete_client_token",
    summary = "End a client token before it expires.",
    params(("id" = houston_protocol::schema::ApiKeyId, Path, description = "Id of the token.")),
    responses((status = 204, description = "The token is not valid any more.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ApiKeyId>,
) -> Result<StatusCode, ApiError> {
    if caller.is_for_client() {
        return Err(ApiError::BoundKey);
    }
    let cell = app.with_shard(shard(id));
    let ended = cell.store(caller).delete_client_token_of_user(id, caller.user()).await;
    if !Arc::ptr_eq(&cell, &app) && matches!(ended, Ok(()) | Err(Error::NotFound { .. })) {
        // The copy of the home may be gone; or it is all that an earlier attempt, which failed here, has left.
        match app.store(caller).delete_client_token(id, caller.user()).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ended?;
    Ok(StatusCode::NO_CONTENT)
}
