//! `DELETE /v1/webhooks/{id}`: deletes a webhook with its deliveries.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use houston_domain::id::WebhookId;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    DELETE: delete "/v1/webhooks/{id}" => delete,
    tag = "webhooks",
    operation_id = "delete_webhook",
    summary = "Delete a webhook with its deliveries.",
    params(("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook.")),
    responses((status = 204, description = "It is deleted. An event that is being sent may still arrive.")),
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_webhook(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
