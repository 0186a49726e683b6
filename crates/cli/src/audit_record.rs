//! What commands, and people who sign in, leave in the audit log.

use houston_domain::id::AuditId;
use houston_store::audit::NewRecord;

/// That `actor` has done something to `target`, by no request.
pub(crate) fn record_of(id: AuditId, actor: String, operation: &str, target: String) -> NewRecord {
    NewRecord {
        id,
        actor,
        on_behalf_of: None,
        operation: operation.to_owned(),
        target: Some(target),
        status: 0,
        code: None,
        request_id: None,
    }
}
