//! What happened in a run beside what it said and did, as `CUSTOM` events.

use houston_domain::event::Event as Durable;

use crate::events::agui::{Event, Fact, Timestamp};
use crate::rfc3339::Time;

/// The one event of a fact that needs nothing around it.
pub(crate) fn fact(timestamp: Timestamp, event: &Durable) -> Option<Event<'_>> {
    let (name, value) = match event {
        Durable::ModelFallback { from, to, code, message } => {
            ("houston.model.fallback", Fact::Fallback { from, to, code, message })
        }
        Durable::TeamRouted { team_id, agent_id, agent_name, by, reason } => {
            let (team_id, agent_id, by) = (*team_id, *agent_id, *by);
            ("houston.team.routed", Fact::Routed { team_id, agent_id, agent_name, by, reason })
        }
        Durable::SessionArchived { session_id, number, reason, started_at, completed_at } => {
            let value = Fact::SessionArchived {
                session_id: *session_id,
                number: *number,
                completion_reason: *reason,
                started_at: Time(*started_at),
                completed_at: Time(*completed_at),
            };
            ("houston.session.archived", value)
        }
        Durable::ContextCompressed {
            reason,
            entries_before,
            entries_after,
            tokens_before,
            tokens_after,
            model,
            ..
        } => {
            let value = Fact::Compressed {
                reason: *reason,
                entries_before: *entries_before,
                entries_after: *entries_after,
                tokens_before: *tokens_before,
                tokens_after: *tokens_after,
                model: model.as_deref(),
            };
            ("houston.context.compressed", value)
        }
        _ => return None,
    };
    Some(Event::Custom { timestamp, name, value })
}
