//! How far users have read their threads. A mark belongs to the thread, so it is the same on all devices of its user.

pub(crate) mod set;
pub(crate) mod unread;

use houston_protocol::read_mark::ReadMarkResponse;
use houston_protocol::time::Time;
use houston_store::read_mark::ReadMark;

use crate::agentable_path::Owner;

fn response(mark: ReadMark) -> ReadMarkResponse {
    ReadMarkResponse {
        owner: Owner { kind: mark.kind, id: mark.agentable },
        last_seq: mark.last_seq,
        read_seq: mark.read_seq,
        unread: mark.unread,
        read_at: mark.read_at.map(Time),
    }
}
