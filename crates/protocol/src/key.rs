//! API keys: what a request's own key is, what it allows, and the keys of a tenant.

use houston_domain::id::{ApiKeyId, UserId};
use houston_domain::scope::Scope;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The key that a request was sent with. Its secret is in no response.
///
/// ```json
/// {"id": "key_0190…", "scopes": ["read", "operate"], "user_id": null}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OwnKeyResponse {
    pub id: ApiKeyId,
    /// What it allows; `admin` allows everything.
    pub scopes: Vec<Scope>,
    /// The only user that it reads and writes for; null: it is for all of the tenant.
    pub user_id: Option<UserId>,
}

/// A key of the tenant. Its secret is in no response.
///
/// ```json
/// {"id": "key_0190…", "name": "deploy", "prefix": "hou_4c1d9e2a", "status": "active", "scopes": ["operate"],
///  "user_id": null, "issuer": null, "created_at": "2026-11-22T09:00:00.000Z", "expires_at": null, "revoked_at": null,
///  "last_used_at": "2026-11-26T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyResponse {
    pub id: ApiKeyId,
    /// What it is for, or who signed in to the console with it.
    pub name: String,
    /// What it begins with.
    pub prefix: String,
    /// `active`, `revoked` or `expired`.
    pub status: String,
    /// What it allows; `admin` allows everything.
    pub scopes: Vec<Scope>,
    /// The only user that it reads and writes for; null: it is for all of the tenant.
    pub user_id: Option<UserId>,
    /// Whose JWTs are accepted in its place; null: it is a key.
    pub issuer: Option<String>,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
    /// When it was last used, to the minute; null: never.
    pub last_used_at: Option<Time>,
}
