//! `GET /v1/webhooks/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::WebhookId;
use houston_protocol::webhook::WebhookResponse;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/webhooks/{id}" => get,
    tag = "webhooks",
    operation_id = "get_webhook",
    summary = "Get a webhook, without its secret.",
    params(("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook.")),
    responses((status = 200, description = "The webhook.", body = WebhookResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookResponse>, ApiError> {
    let webhook = app.store(caller).webhook(id).await?;
    Ok(Json(response(&app, webhook)))
}
