//! `PATCH /v1/webhooks/{id}`: changes a webhook, or switches it off and on.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::WebhookId;
use houston_domain::scope::Scope;
use houston_protocol::webhook::{UpdateWebhook, WebhookResponse};
use houston_store::webhook::WebhookChange;

use super::{check_description, check_topics, check_url, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::state::App;

endpoint! {
    CHANGE: patch "/v1/webhooks/{id}" => change,
    tag = "webhooks",
    operation_id = "update_webhook",
    summary = "Change a webhook, or switch it off and on again.",
    description = "Another URL or other topics need the scope `read` besides `operate`: events have contents.",
    params(("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook.")),
    request_body = UpdateWebhook,
    responses((status = 200, description = "The webhook.", body = WebhookResponse)),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    Change(body): Change<UpdateWebhook>,
) -> Result<Json<WebhookResponse>, ApiError> {
    if body.url.is_some() || body.topics.is_some() {
        caller.needs(Scope::Read)?;
    }
    body.url.as_deref().map_or(Ok(()), |url| check_url(&app, url))?;
    body.topics.as_deref().map_or(Ok(()), check_topics)?;
    body.description.as_deref().map_or(Ok(()), check_description)?;
    let change = WebhookChange {
        url: body.url.as_deref(),
        description: body.description.as_deref(),
        topics: body.topics.as_deref(),
        enabled: body.enabled,
    };
    let webhook = app.store(caller).change_webhook(id, change, app.now()).await?;
    Ok(Json(response(&app, webhook)))
}
