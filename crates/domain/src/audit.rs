//! The audit log: who changed what.

use serde::{Deserialize, Serialize};

use crate::id::AuditId;
use crate::time::Time;

/// A change, or an attempt that was refused. It has ids only, no content.
///
/// ```json
/// {"id": "audit_0190…", "at": "2026-11-22T09:00:00.000Z", "actor": "key_0190…", "actor_name": "deploy",
///  "on_behalf_of": null, "operation": "update_agent", "target": "agent_0190…", "status": 200, "code": null, "request_id": "req_0190…"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AuditRecordResponse))]
pub struct AuditRecord {
    pub id: AuditId,
    pub at: Time,
    /// Who: the key, or a command of the operator.
    pub actor: String,
    /// The name of that key: what it is for, or who signed in to the console. Null: it is no key, or was deleted.
    pub actor_name: Option<String>,
    /// The user whom the key or the token is bound to.
    pub on_behalf_of: Option<String>,
    /// What: the `operationId` of this document, or the name of a command.
    pub operation: String,
    /// The id or the name in the path; null: none was named.
    pub target: Option<String>,
    /// The status of the answer; 0 for a command; 499 if it was not answered: it may have been done.
    pub status: i16,
    /// The code of the problem, if it was refused.
    pub code: Option<String>,
    /// The id of the request, as in the log of the server.
    pub request_id: Option<String>,
}
