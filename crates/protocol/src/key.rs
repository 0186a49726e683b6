//! API keys: what a request's own key is, and what it allows.

use houston_domain::id::{ApiKeyId, UserId};
use houston_domain::scope::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The key that a request was sent with. Its secret is in no response.
///
/// ```json
/// {"id": "key_0190…", "scopes": ["read", "operate"], "user_id": null}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnKeyResponse {
    #[schema(value_type = schema::ApiKeyId)]
    pub id: ApiKeyId,
    /// What it allows; `admin` allows everything.
    #[schema(value_type = Vec<schema::Scope>)]
    pub scopes: Vec<Scope>,
    /// The only user that it reads and writes for; null: it is for all of the tenant.
    #[schema(value_type = Option<schema::UserId>)]
    pub user_id: Option<UserId>,
}
