//! What a durable event does to the text that is open for a client.

use houston_domain::event::{Committed, Event as Durable};

use super::Cursor;
use crate::events::position::Open;

/// What a durable event does to the open text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Leaves it open or does not concern it.
    Pass,
    /// Nothing is sent: the client has all of the event already.
    Skip,
    /// Completes it: the rest and the end are sent.
    Complete,
    /// Ends it with a text that differs from what was sent: a snapshot replaces it.
    Replace,
    /// The text will not be completed: it is closed, and a snapshot removes it.
    Void,
}

impl Cursor {
    pub(super) fn effect(&self, event: &Committed) -> Effect {
        let message = self.iteration.map(|iteration| iteration.message);
        let ends = |chars: u32, text: &str| {
            let has_them = chars == 0 || text.chars().nth(chars as usize - 1).is_some();
            if has_them { Effect::Complete } else { Effect::Replace }
        };
        match (self.at.open, &event.event) {
            (Open::Nothing, _) => Effect::Pass,
            (_, event) if event.is_transparent() => Effect::Pass,
            (Open::Reasoning(chars), Durable::Thought { text }) => match ends(chars, text) {
                // Snapshots have no reasoning, so the reasoning that was sent cannot be replaced.
                Effect::Replace => Effect::Complete,
                effect => effect,
            },
            (Open::Thought | Open::Text(_), Durable::Thought { .. }) => Effect::Skip,
            (Open::Thought, _) => Effect::Pass,
            // Tools may run before the message of the same model call is committed.
            (Open::Text(_), Durable::ToolCalled { .. } | Durable::ToolReturned { .. }) => Effect::Pass,
            (Open::Text(chars), Durable::MessageSent { message_id }) if Some(*message_id) == message => {
                ends(chars, event.body.as_ref().map_or("", |body| &body.content))
            }
            _ => Effect::Void,
        }
    }

    pub(super) fn open_after(&self, effect: Effect, event: &Durable) -> Open {
        let passes = match event {
            Durable::ToolCalled { .. } | Durable::ToolReturned { .. } => true,
            event => event.is_transparent(),
        };
        match (effect, self.at.open) {
            (Effect::Pass, open) if passes => open,
            (Effect::Skip, Open::Text(chars)) => Open::Text(chars),
            _ => Open::Nothing,
        }
    }
}
