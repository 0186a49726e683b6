//! Text that may be withdrawn, for the formats that cannot take text back (OpenAI's chat completions, the AI SDK): it is kept until
//! it is known to be the message.

use std::ops::ControlFlow;

use houston_protocol::agui::{EntityId, Event};

/// The draft of a stream, if there is one.
#[derive(Debug, Default)]
pub(super) struct Draft(Option<Kept>);

#[derive(Debug)]
struct Kept {
    id: EntityId,
    text: String,
    /// Whether it has ended: the next event says whether it was withdrawn.
    is_over: bool,
}

impl Draft {
    /// Breaks if the event belongs to a draft. Otherwise returns the text of a draft that is the message: to be sent before the event.
    pub(super) fn push(&mut self, event: &Event<'_>) -> ControlFlow<(), Option<(EntityId, String)>> {
        match (event, &mut self.0) {
            (Event::TextMessageStart { is_draft: true, message_id, .. }, _) => {
                self.0 = Some(Kept { id: *message_id, text: String::new(), is_over: false });
                ControlFlow::Break(())
            }
            (Event::TextMessageContent { delta, .. }, Some(kept)) => {
                kept.text.push_str(delta);
                ControlFlow::Break(())
            }
            (Event::TextMessageEnd { .. }, Some(kept)) => {
                kept.is_over = true;
                ControlFlow::Break(())
            }
            (Event::MessagesSnapshot { .. }, _) => {
                self.0 = None;
                ControlFlow::Continue(None)
            }
            (_, Some(Kept { is_over: true, .. })) => {
                ControlFlow::Continue(self.0.take().map(|kept| (kept.id, kept.text)))
            }
            _ => ControlFlow::Continue(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::id::MessageId;
    use houston_protocol::agui::Role;

    use super::*;

    #[test]
    fn draft_is_sent_whole_or_not_at_all() {
        let (timestamp, message_id) = (None, EntityId::Message(MessageId(uuid::Uuid::nil())));
        let text = |is_draft| {
            let start = Event::TextMessageStart { timestamp, message_id, role: Role::Assistant, is_draft };
            let piece = |delta: &'static str| Event::TextMessageContent {
                timestamp,
                message_id,
                delta: delta.into(),
            };
            [
                start,
                piece("Hel"),
                piece("lo"),
                Event::TextMessageEnd { timestamp, message_id, metadata: None },
            ]
        };
        let next = Event::StepFinished { timestamp, step_name: "iteration 1".into() };
        let withdrawn = Event::MessagesSnapshot { timestamp, messages: Vec::new().into(), metadata: None };
        let mut draft = Draft::default();
        for event in text(true) {
            assert_eq!(draft.push(&event), ControlFlow::Break(()));
        }
        assert_eq!(draft.push(&next), ControlFlow::Continue(Some((message_id, "Hello".to_owned()))));
        for event in text(false).iter().chain([&next]) {
            assert_eq!(
                draft.push(event),
                ControlFlow::Continue(None),
                "what is no draft is sent piece by piece"
            );
        }
        for event in text(true) {
            assert_eq!(draft.push(&event), ControlFlow::Break(()));
        }
        for event in [withdrawn, next] {
            assert_eq!(draft.push(&event), ControlFlow::Continue(None));
        }
    }
}
