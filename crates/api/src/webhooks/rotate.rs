//! `POST /v1/webhooks/{id}/secret`: replaces the secret. For a time both sign, so that receivers can change without a gap.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::WebhookId;
use houston_protocol::webhook::{RotateSecret, WebhookWithSecret};

use super::{response, secret};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::OptionalBody;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    ROTATE: post "/v1/webhooks/{id}/secret" => rotate,
    tag = "webhooks",
    operation_id = "rotate_webhook_secret",
    summary = "Replace the secret of a webhook; for a time, the one before it signs, too.",
    params(("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook.")),
    request_body = RotateSecret,
    responses((status = 200, description = "The webhook with its new secret.", body = WebhookWithSecret)),
}

pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    OptionalBody(body): OptionalBody<RotateSecret>,
) -> Result<Json<WebhookWithSecret>, ApiError> {
    let old_until = secret::old_until(&app, body.value)?;
    let secret = secret::make(&app, caller.tenant(), &id.to_string())?;
    let rotated = app.store(caller).rotate_webhook_secret(id, &secret.sealed, old_until, app.now()).await?;
    Ok(Json(WebhookWithSecret { webhook: response(&app, rotated), secret: secret.text }))
}
