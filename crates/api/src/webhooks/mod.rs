//! `/v1/webhooks`: subscriptions of the tenant to events, which workers deliver to its addresses.

pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod deliveries;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod redeliver;
pub(crate) mod replay;
pub(crate) mod rotate;
pub(crate) mod secret;
pub(crate) mod test;

use houston_domain::event::topic::{MAX_PATTERNS, TopicPattern};
use houston_protocol::time::Time;
use houston_protocol::webhook::WebhookResponse;
use houston_store::webhook::Webhook;

use crate::body::{check_size, check_text};
use crate::error::ApiError;
use crate::state::App;

/// Maximum length of a description, in bytes.
const MAX_DESCRIPTION: usize = 2_000;

/// # Errors
/// [`ApiError::InvalidRequest`] when events must not be sent there.
fn check_url(app: &App, url: &str) -> Result<(), ApiError> {
    check_text("/url", url)?;
    app.state.sinks.judge(url).map_err(|reason| ApiError::field("/url", reason))
}

/// # Errors
/// [`ApiError::InvalidRequest`] that names the pattern which is none.
fn check_topics(topics: &[String]) -> Result<(), ApiError> {
    if topics.is_empty() || topics.len() > MAX_PATTERNS {
        return Err(ApiError::field("/topics", format!("must have 1 to {MAX_PATTERNS} patterns")));
    }
    for (nth, topic) in topics.iter().enumerate() {
        topic
            .parse::<TopicPattern>()
            .map_err(|error| ApiError::field(&format!("/topics/{nth}"), error.to_string()))?;
    }
    Ok(())
}

/// # Errors
/// [`ApiError::InvalidRequest`] when it is too long, or Postgres could not store it.
fn check_description(description: &str) -> Result<(), ApiError> {
    check_size("/description", description.len(), MAX_DESCRIPTION)?;
    check_text("/description", description)
}

/// A webhook without its secrets.
fn response(app: &App, webhook: Webhook) -> WebhookResponse {
    let now = app.now();
    let old_until = webhook.old_until.filter(|until| *until > now);
    // The kind of an agentable is that of the filter, which is stored with it.
    let kind = webhook.kind.clone().unwrap_or_default();
    WebhookResponse {
        id: webhook.id,
        url: webhook.url,
        topics: webhook.topics,
        description: webhook.description,
        user_id: webhook.user,
        agentable_id: webhook.agentable.map(|agentable| agentable.public_id(&kind)),
        kind: webhook.kind,
        enabled: webhook.enabled,
        disabled_because: webhook.disabled_because,
        old_secret_until: old_until.map(Time),
        created_at: Time(webhook.created_at),
        updated_at: Time(webhook.updated_at),
    }
}
