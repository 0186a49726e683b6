//! `POST /v1/keys/{id}/revoke`: ends a key for good. Its requests are refused, and its streams end, within
//! `server.key_cache_s`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::ApiKeyId;
use houston_protocol::key::KeyResponse;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    REVOKE: post "/v1/keys/{id}/revoke" => revoke,
    tag = "keys",
    operation_id = "revoke_key",
    summary = "Revoke an API key for good, with the client tokens it has made.",
    description = "A key may revoke itself. A revoked key stays in the list.",
    params(("id" = houston_protocol::schema::ApiKeyId, Path, description = "Id of the key.")),
    responses((status = 200, description = "The revoked key.", body = KeyResponse)),
}

pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ApiKeyId>,
) -> Result<Json<KeyResponse>, ApiError> {
    Ok(Json(response(app.store(caller).revoke_api_key(id).await?)))
}
