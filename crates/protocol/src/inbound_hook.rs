//! Inbound hooks: addresses at which other programs post messages to an agentable.

use houston_domain::id::{InboundHookId, MessageId};
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// An inbound hook to be created.
///
/// ```json
/// {"agentable_id": "goal_0190…", "name": "shop", "instructions": "A customer has paid. Update the list of orders."}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateInboundHook {
    /// The agentable to which messages are posted.
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub agentable_id: String,
    /// Where the texts come from, as the agent reads it, up to 100 characters.
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub name: String,
    /// What the agent reads before each text, which is marked as what strangers wrote; up to 4,000 characters.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 4000))]
    pub instructions: String,
}

/// An inbound hook. Its secret is answered only when it is made.
///
/// ```json
/// {"id": "hook_0190…", "agentable_id": "goal_0190…", "name": "shop", "instructions": "", "path": "/hooks/hook_0190…",
///  "old_secret_until": null, "created_at": "2026-11-26T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InboundHookResponse {
    pub id: InboundHookId,
    #[cfg_attr(feature = "openapi", schema(value_type = houston_domain::id::AgentableId))]
    pub agentable_id: String,
    pub name: String,
    pub instructions: String,
    /// Where the other program posts to, signed as Standard Webhooks are.
    pub path: String,
    /// Until when the secret before this one is accepted, too.
    pub old_secret_until: Option<Time>,
    pub created_at: Time,
}

/// An inbound hook with its new secret. No other response has the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InboundHookWithSecret {
    #[serde(flatten)]
    pub hook: InboundHookResponse,
    /// Signs what is posted: `whsec_` and base64.
    pub secret: String,
}

/// The inbound hooks of an agentable, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InboundHookList {
    pub data: Vec<InboundHookResponse>,
}

/// What was received is a message now, or was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceivedResponse {
    pub message_id: MessageId,
}
