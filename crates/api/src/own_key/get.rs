//! `GET /v1/key`: what the key of the request allows, so that a front end offers only that.

use axum::Json;
use houston_protocol::key::OwnKeyResponse;

use crate::auth::Caller;
use crate::endpoint::endpoint;

endpoint! {
    GET: get "/v1/key" => get,
    tag = "keys",
    operation_id = "get_own_key",
    summary = "Get what the key of this request allows.",
    responses((status = 200, description = "The key.", body = OwnKeyResponse)),
}

pub(crate) async fn get(caller: Caller) -> Json<OwnKeyResponse> {
    Json(OwnKeyResponse {
        id: caller.key(),
        scopes: caller.scopes().iter().collect(),
        user_id: caller.user(),
    })
}
