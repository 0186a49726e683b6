//! Client tokens: short-lived keys for the browser or the phone of one user.

use houston_domain::id::{ApiKeyId, UserId};
use houston_domain::scope::Scope;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Makes a client token.
///
/// ```json
/// {"user_id": "user_0190…", "agentables": ["goal_0190…"], "scopes": ["read", "post"], "minutes": 60}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateClientToken {
    /// Whose browser or phone it is for.
    pub user_id: UserId,
    /// The only agentables of the user that it may reach, 1 to 100; all if left out.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<houston_domain::id::AgentableId>>, min_items = 1, max_items = 100))]
    pub agentables: Option<Vec<String>>,
    /// What it allows: `read`, `post` or both, and nothing that the key which makes it may not do. `read` if left out.
    pub scopes: Option<Vec<Scope>>,
    /// How long it is valid, 1 to 1,440 minutes; 60 if left out.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1440))]
    pub minutes: Option<u32>,
}

/// A new client token. No other response has the token itself.
///
/// ```json
/// {"id": "key_0190…", "token": "houc_3f…", "user_id": "user_0190…", "agentables": ["goal_0190…"], "scopes": ["read"],
///  "expires_at": "2026-11-22T10:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClientTokenResponse {
    pub id: ApiKeyId,
    /// `Authorization: Bearer`; for event streams also the parameter `access_token` of the query.
    pub token: String,
    pub user_id: UserId,
    /// The only agentables that it may reach; all of the user's if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<houston_domain::id::AgentableId>>))]
    pub agentables: Option<Vec<String>>,
    pub scopes: Vec<Scope>,
    pub expires_at: Time,
}
