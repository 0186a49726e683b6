//! `/v1/sessions`: closed stretches of an agentable's history, each with its summary. The open one is the end of
//! `/v1/{kinds}/{id}/history`.

pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod list;

use houston_domain::id::SessionId;
use houston_domain::session::CompletionReason;
use houston_store::session::Session;
use serde::Serialize;

use crate::place::Owner;
use crate::rfc3339::Time;

/// A session as clients see it.
#[derive(Debug, Serialize)]
struct Shown {
    id: SessionId,
    #[serde(flatten)]
    owner: Owner,
    number: i32,
    completion_reason: CompletionReason,
    summary: String,
    /// `model`; `extract`: the beginning of what the user wrote.
    summary_source: &'static str,
    /// Whether summary and counts are still to be written.
    pending: bool,
    message_count: Option<i32>,
    token_count: Option<i64>,
    first_position: i64,
    last_position: i64,
    started_at: Time,
    completed_at: Time,
}

impl From<Session> for Shown {
    fn from(session: Session) -> Self {
        let (first_position, last_position) = session.positions;
        Self {
            id: session.id,
            owner: Owner { kind: session.kind, id: session.agentable },
            number: session.number,
            completion_reason: session.reason,
            summary: session.summary,
            summary_source: if session.by_model { "model" } else { "extract" },
            pending: session.pending,
            message_count: session.message_count,
            token_count: session.token_count,
            first_position,
            last_position,
            started_at: Time(session.started_at),
            completed_at: Time(session.completed_at),
        }
    }
}
