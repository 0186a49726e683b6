//! `CUSTOM` events for what happens in a run besides messages and tool calls: model fallback, routing, compression, …

use houston_domain::event::Event as Durable;
use houston_protocol::agui::{Event, Fact, Timestamp};
use houston_protocol::time::Time;

/// The `CUSTOM` event for `event`; `None` if it is rendered otherwise.
pub(crate) fn fact(timestamp: Timestamp, event: &Durable) -> Option<Event<'_>> {
    let fact = match event {
        Durable::ModelFallback { from, to, code, message } => Fact::ModelFallback {
            from: from.into(),
            to: to.into(),
            code: code.into(),
            message: message.into(),
        },
        Durable::TeamRouted { team_id, agent_id, agent_name, by, reason } => Fact::TeamRouted {
            team_id: *team_id,
            agent_id: *agent_id,
            agent_name: agent_name.into(),
            by: *by,
            reason: reason.into(),
        },
        Durable::SessionArchived { session_id, number, reason, started_at, completed_at } => {
            Fact::SessionArchived {
                session_id: *session_id,
                number: *number,
                completion_reason: *reason,
                started_at: Time(*started_at),
                completed_at: Time(*completed_at),
            }
        }
        Durable::ContextCompressed {
            reason,
            entries_before,
            entries_after,
            tokens_before,
            tokens_after,
            model,
            ..
        } => Fact::ContextCompressed {
            reason: *reason,
            entries_before: *entries_before,
            entries_after: *entries_after,
            tokens_before: *tokens_before,
            tokens_after: *tokens_after,
            model: model.as_deref().map(Into::into),
        },
        _ => return None,
    };
    Some(Event::Custom { timestamp, fact })
}
