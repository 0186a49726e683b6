//! `/v1/sessions`: closed sessions of an agentable, each with its summary. The open session is the end of
//! `/v1/{kinds}/{id}/history`.

pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod list;

use houston_protocol::session::SessionResponse;
use houston_protocol::time::Time;
use houston_store::session::Session;

use crate::agentable_path::Owner;

/// The response for a closed session.
fn response(session: Session) -> SessionResponse {
    let (first_position, last_position) = session.positions;
    SessionResponse {
        id: session.id,
        owner: Owner { kind: session.kind, id: session.agentable },
        number: session.number,
        completion_reason: session.reason,
        summary: session.summary,
        summary_source: if session.by_model { "model" } else { "extract" }.to_owned(),
        pending: session.pending,
        message_count: session.message_count,
        token_count: session.token_count,
        first_position,
        last_position,
        started_at: Time(session.started_at),
        completed_at: Time(session.completed_at),
    }
}
