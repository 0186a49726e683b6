//! `POST /v1/webhooks/{id}/replay`: sends everything again that has happened since a time and that the webhook is for.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::WebhookId;
use houston_protocol::webhook::ReplayWebhook;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    REPLAY: post "/v1/webhooks/{id}/replay" => replay,
    tag = "webhooks",
    operation_id = "replay_webhook",
    summary = "Send all events again that have happened since a time and that the webhook is for.",
    params(("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook.")),
    request_body = ReplayWebhook,
    responses((status = 202, description = "Their deliveries are made in the background. Events that were delivered before come again, with the same id.")),
}

pub(crate) async fn replay(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    Creation { value: body, key: _ }: Creation<ReplayWebhook>,
) -> Result<StatusCode, ApiError> {
    let now = app.now();
    if body.since.0 > now {
        return Err(ApiError::field("/since", "must not be in the future"));
    }
    for cell in app.all_cells() {
        cell.store(caller).request_replay(id, body.since.0, now).await?;
    }
    Ok(StatusCode::ACCEPTED)
}
