//! `POST /v1/webhooks/{id}/deliveries/{delivery_id}/redeliver`: attempts a delivery again, for instance one that is dead.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use houston_domain::id::{DeliveryId, WebhookId};

use crate::agentable_path::params;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

/// The webhook and the delivery of a path.
pub(crate) struct DeliveryPath(WebhookId, DeliveryId);

impl<S: Send + Sync> FromRequestParts<S> for DeliveryPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "delivery" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let param = |name| params.iter().find(|(of, _)| *of == name).map_or("", |(_, value)| value);
        match (param("id").parse(), param("delivery_id").parse()) {
            (Ok(webhook), Ok(delivery)) => Ok(Self(webhook, delivery)),
            _ => Err(NOT_FOUND),
        }
    }
}

endpoint! {
    REDELIVER: post "/v1/webhooks/{id}/deliveries/{delivery_id}/redeliver" => redeliver,
    tag = "webhooks",
    operation_id = "redeliver",
    summary = "Send an event to a webhook again, whatever became of it.",
    params(
        ("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook."),
        ("delivery_id" = houston_protocol::schema::DeliveryId, Path, description = "Id of the delivery.")
    ),
    responses((status = 202, description = "It is sent again, after those of its agentable that wait.")),
}

pub(crate) async fn redeliver(
    State(app): State<Arc<App>>,
    caller: Caller,
    DeliveryPath(webhook, delivery): DeliveryPath,
) -> Result<StatusCode, ApiError> {
    app.store(caller).redeliver(webhook, delivery, app.now()).await?;
    Ok(StatusCode::ACCEPTED)
}
