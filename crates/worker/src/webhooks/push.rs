//! Push notifications of A2A: the event as an update of the client's task, with the token and the credentials that the client
//! gave.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use houston_domain::event::Committed;
use houston_domain::event::topic::EventOwner;
use houston_domain::sealed::Purpose;
use houston_protocol::a2a::update::{TaskIds, update};
use houston_protocol::a2a::{MEDIA_TYPE, PushSecrets};
use houston_protocol::cloud_event::event_id;
use houston_store::outbox::{ClaimedDelivery, DeliveredPush};
use houston_web::sink::{Attempt, Message};
use secrecy::ExposeSecret as _;

use super::Shared;
use super::sender::failed;

/// Sends one update.
pub(super) async fn attempt(
    shared: &Shared,
    (delivery, push): (&ClaimedDelivery, &DeliveredPush),
    (owner, committed): &(EventOwner, Committed),
    now: DateTime<Utc>,
) -> Attempt {
    let ids = TaskIds { run: push.run, context: push.context.clone() };
    let Some(update) = update(&ids, committed) else {
        // A message that was taken back: there is nothing to say.
        return Attempt { status: None, error: None, retry_after_s: None };
    };
    let secrets = match secrets(shared, delivery, push) {
        Ok(secrets) => secrets,
        Err(why) => return failed(&why),
    };
    let body = Bytes::from(serde_json::to_vec(&update).unwrap_or_default());
    let id = event_id(owner, committed.seq);
    let traceparent = delivery.traceparent.as_deref();
    let message = Message { url: &delivery.url, id: &id, body, content_type: MEDIA_TYPE, traceparent };
    shared.webhooks.sinks.send_with(&message, &secrets.headers(), now).await
}

fn secrets(shared: &Shared, delivery: &ClaimedDelivery, push: &DeliveredPush) -> Result<PushSecrets, String> {
    if delivery.sealed.is_empty() {
        return Ok(PushSecrets::default());
    }
    let keys = shared.webhooks.keys.as_ref().ok_or("HOUSTON_SECRETS_KEY is not set for the workers")?;
    let purpose = PushSecrets::purpose(push.run, &push.push_id);
    let opened = keys.open(Purpose { tenant: delivery.tenant, what: &purpose }, &delivery.sealed);
    let opened = opened.map_err(|error| format!("its credentials cannot be opened: {error}"))?;
    serde_json::from_str(opened.expose_secret()).map_err(|_| "its credentials cannot be read".to_owned())
}
