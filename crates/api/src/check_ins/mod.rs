//! Check-ins: times at which an agent is woken, set by the agent itself or over REST.

pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod list;

use houston_protocol::check_in::CheckInResponse;
use houston_protocol::time::Time;
use houston_store::check_in::CheckIn;

use crate::agentable_path::Owner;

/// The response for a check-in.
fn response(check_in: CheckIn) -> CheckInResponse {
    let CheckIn { id, agentable, kind, reason, due_at, created_at } = check_in;
    CheckInResponse {
        id,
        owner: Owner { kind, id: agentable },
        reason,
        due_at: Time(due_at),
        created_at: Time(created_at),
    }
}
