//! `GET /v1/webhooks`: all webhooks of the tenant; there are at most 100.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_protocol::webhook::WebhookList;

use super::response;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    LIST: get "/v1/webhooks" => list,
    tag = "webhooks",
    operation_id = "list_webhooks",
    summary = "List the webhooks of the tenant, the oldest first.",
    responses((status = 200, description = "All webhooks.", body = WebhookList)),
}

pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<WebhookList>, ApiError> {
    let webhooks = app.store(caller).webhooks().await?;
    Ok(Json(WebhookList { data: webhooks.into_iter().map(|webhook| response(&app, webhook)).collect() }))
}
