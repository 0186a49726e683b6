//! `POST /v1/webhooks/{id}/test`: sends an event `webhook.test` at once, and answers what the receiver said.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use houston_domain::id::{DeliveryId, WebhookId};
use houston_protocol::cloud_event::{CONTENT_TYPE, CloudEvent};
use houston_protocol::time::Time;
use houston_protocol::webhook::WebhookTestResponse;
use houston_web::sink::Message;
use tokio::time::{Instant, timeout};

use super::secret;
use crate::admission;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    TEST: post "/v1/webhooks/{id}/test" => test,
    tag = "webhooks",
    operation_id = "test_webhook",
    summary = "Send a test event to a webhook, also if it is switched off.",
    params(("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook.")),
    responses((status = 200, description = "What the receiver answered.", body = WebhookTestResponse)),
}

pub(crate) async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookTestResponse>, ApiError> {
    let webhook = app.store(caller).webhook(id).await?;
    let what = id.to_string();
    let old = webhook.old_sealed.as_deref().zip(webhook.old_until);
    let signer = secret::signer(&secret::opened(&app, (caller.tenant(), &what), &webhook.sealed, old)?)?;
    let event_id = app.state.ids.next::<DeliveryId>().to_string().replace("delivery_", "test_");
    let source = format!("/v1/webhooks/{id}");
    let event = CloudEvent::plain(event_id.clone(), source, "webhook.test", Time(app.now()));
    let body = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
    let message =
        Message { url: &webhook.url, id: &event_id, body, content_type: CONTENT_TYPE, traceparent: None };
    let began = Instant::now();
    // The answer comes within the time of a request.
    let limit = app.state.config.request_timeout().mul_f32(0.8);
    admission::give_back();
    let attempt = timeout(limit, app.state.sinks.send(&message, &signer, app.now())).await;
    let (status, error) = match attempt {
        Ok(attempt) => (attempt.status, attempt.error),
        Err(_) => (None, Some(format!("the receiver did not answer within {} s", limit.as_secs()))),
    };
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Json(WebhookTestResponse { accepted: error.is_none(), status, error, duration_ms }))
}
