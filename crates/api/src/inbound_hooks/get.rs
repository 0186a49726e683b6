//! `GET /v1/inbound-hooks/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::InboundHookId;
use houston_protocol::inbound_hook::InboundHookResponse;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/inbound-hooks/{id}" => get,
    tag = "webhooks",
    operation_id = "get_inbound_hook",
    summary = "Get an inbound hook, without its secret.",
    params(("id" = houston_protocol::schema::InboundHookId, Path, description = "Id of the hook.")),
    responses((status = 200, description = "The hook.", body = InboundHookResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<InboundHookId>,
) -> Result<Json<InboundHookResponse>, ApiError> {
    let hook = app.store(caller).inbound_hook(id).await?;
    Ok(Json(response(&app, hook)))
}
