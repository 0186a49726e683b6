//! Webhooks: subscriptions to events, and their deliveries.

use houston_domain::id::{UserId, WebhookId};
pub use houston_domain::webhook::UpdateWebhook;
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

/// A webhook. Its secret is answered only when it is made.
///
/// ```json
/// {"id": "webhook_0190…", "url": "https://hooks.example.com/houston", "topics": ["run.*"], "description": "", "user_id": null,
///  "kind": null, "agentable_id": null, "enabled": true, "disabled_because": null, "old_secret_until": null,
///  "created_at": "2026-11-26T09:00:00.000Z", "updated_at": "2026-11-26T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookResponse {
    pub id: WebhookId,
    pub url: String,
    pub topics: Vec<String>,
    pub description: String,
    pub user_id: Option<UserId>,
    pub kind: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<houston_domain::id::AgentableId>))]
    pub agentable_id: Option<String>,
    pub enabled: bool,
    /// Why Houston has switched it off: `gone`, its address answered 410; `backlog`, more than 100,000 events waited for its receiver.
    pub disabled_because: Option<String>,
    /// Until when the secret before this one signs, too.
    pub old_secret_until: Option<Time>,
    pub created_at: Time,
    pub updated_at: Time,
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
