//! Check-ins: times at which an agent is woken, as it said or as somebody asked.

pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod list;

use houston_domain::id::CheckInId;
use houston_store::check_in::CheckIn;
use serde::Serialize;

use crate::place::Owner;
use crate::rfc3339::Time;

/// A check-in as clients see it.
#[derive(Debug, Serialize)]
struct Shown {
    id: CheckInId,
    #[serde(flatten)]
    owner: Owner,
    reason: String,
    due_at: Time,
    created_at: Time,
}

impl From<CheckIn> for Shown {
    fn from(check_in: CheckIn) -> Self {
        let CheckIn { id, agentable, kind, reason, due_at, created_at } = check_in;
        Self {
            id,
            owner: Owner { kind, id: agentable },
            reason,
            due_at: Time(due_at),
            created_at: Time(created_at),
        }
    }
}
