//! Erasures: what was erased on request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{ApiKeyId, ErasureId};
use crate::time::Time;

/// An erasure. It is stored permanently, and contains nothing of what was erased.
///
/// ```json
/// {"id": "erasure_0190…", "status": "completed", "resource": "user", "resource_id": "user_0190…",
///  "api_key_id": "key_0190…", "deleted": {"messages": 12, "runs": 3}, "requested_at": "2026-11-22T09:00:00.000Z",
///  "completed_at": "2026-11-22T09:00:01.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ErasureResponse))]
pub struct Erasure {
    pub id: ErasureId,
    /// `running` while rows are deleted, then `completed`.
    pub status: String,
    /// `user`, or the kind of the agentable.
    pub resource: String,
    /// The id of what was erased.
    pub resource_id: String,
    /// The API key of the request; null if it was not made over HTTP.
    pub api_key_id: Option<ApiKeyId>,
    /// Number of rows deleted so far, by table.
    pub deleted: BTreeMap<String, i64>,
    pub requested_at: Time,
    pub completed_at: Option<Time>,
}
