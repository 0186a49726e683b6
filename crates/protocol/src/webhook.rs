//! Webhooks: subscriptions to events, and their deliveries.

use houston_domain::id::UserId;
pub use houston_domain::webhook::{UpdateWebhook, Webhook as WebhookResponse};
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A webhook to be created.
///
/// ```json
/// {"url": "https://hooks.example.com/houston", "topics": ["run.*", "question.asked"], "user_id": "user_0190…"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateWebhook {
    /// Where events are sent: https, on the public internet.
    pub url: String,
    /// Which events, 1 to 20 patterns of topics: `run.*`, `question.asked`, `tool.**`, `**`.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 20))]
    pub topics: Vec<String>,
    /// For people, up to 500 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 500))]
    pub description: String,
    /// Only events of this user's agentables.
    pub user_id: Option<UserId>,
    /// Only events of agentables of this kind.
    pub kind: Option<String>,
    /// Only events of this agentable.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<houston_domain::id::AgentableId>))]
    pub agentable_id: Option<String>,
}

/// A webhook with its new secret. No other response has the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookWithSecret {
    #[serde(flatten)]
    pub webhook: WebhookResponse,
    /// Verifies the signatures (Standard Webhooks): `whsec_` and base64.
    pub secret: String,
}

/// All webhooks of the tenant, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookList {
    pub data: Vec<WebhookResponse>,
}

/// How long the secret that is replaced signs, too.
///
/// ```json
/// {"old_secret_hours": 24}
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RotateSecret {
    /// 0 to 720 hours; 24 if left out.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 720))]
    pub old_secret_hours: Option<u32>,
}

/// What became of a test event.
///
/// ```json
/// {"accepted": false, "status": 500, "error": "the receiver answered 500 Internal Server Error", "duration_ms": 12}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookTestResponse {
    pub accepted: bool,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    pub error: Option<String>,
    pub duration_ms: u64,
}

/// Asks for all events again that happened since a time and that the webhook is for.
///
/// ```json
/// {"since": "2026-11-26T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplayWebhook {
    pub since: Time,
}
