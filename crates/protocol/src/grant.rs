//! Grants: the lasting yes of people for tools.

use houston_domain::id::{GrantId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Time;

/// A lasting yes: calls of the tool that it covers are not asked about, where a lasting yes is possible.
///
/// ```json
/// {"id": "grant_0190…", "user_id": "user_0190…", "agentable": "goal_0190…", "tool": "send_mail",
///  "when": {"/to": {"glob": "*@example.com"}}, "granted_by": "Ann", "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GrantResponse {
    pub id: GrantId,
    pub user_id: UserId,
    /// The agentable it is for; null: all of the user's.
    pub agentable: Option<String>,
    pub tool: String,
    /// JSON pointers into the arguments, and what they must be.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::schema::AnyJson>))]
    pub when: Map<String, Value>,
    /// Who gave it, as the request said.
    pub granted_by: Option<String>,
    pub created_at: Time,
}
