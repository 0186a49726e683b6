//! `/v1/sessions`: closed stretches of an agentable's history, each with its summary. The open one is the end of
//! `/v1/{kinds}/{id}/history`.

pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod list;

use houston_protocol::session::SessionResponse;
use houston_protocol::time::Time;
use houston_store::session::Session;

use crate::agentable_path::Owner;

/// The session as clients see it.
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
