//! Where one client stands, and what it must be sent next: a state machine without I/O.
//!
//! Durable events are fed in order, each once; deltas as they come, or not at all. Whatever was lost, and wherever
//! the client was cut off, what it has received in total is a valid AG-UI stream with the texts that Postgres has:
//! - A delta is sent only if it continues, character by character, what this client has.
//! - The durable event that ends a text brings what is missing of it.
//! - A text that will never end, since its attempt broke off, is closed, and a snapshot of the thread takes it back.

use houston_domain::event::{Committed, Delta, Event as Durable, Part};
use houston_domain::id::MessageId;
use houston_protocol::agui::{EntityId, Event, Role, SnapshotMessage};
use houston_store::event::OpenIteration;

use crate::events::position::{Open, Position};
use crate::events::render::{self, Context};

/// Takes the frames, in order, each with the position after it.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(Position, &Event<'_>);

/// What became of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It was sent, in whole or in part, or had been before.
    Fine,
    /// Something before it is missing, and it is time to ask for the text so far.
    Gap,
    /// It belongs to an iteration of which no durable event was seen: Postgres knows more.
    Behind,
}

/// Where one client stands.
#[derive(Debug)]
pub(crate) struct Cursor {
    thread: Box<str>,
    at: Position,
    iteration: Option<OpenIteration>,
    over: bool,
    dropped: u32,
    chased: Option<MessageId>,
}

/// What a durable event does to the text that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing: it passes by.
    Pass,
    /// It says what the client knows already.
    Skip,
    /// It ends it, and brings the rest.
    Complete,
    /// It ends it otherwise than what was sent: the snapshot brings the right text.
    Replace,
    /// The text will never end.
    Void,
}

/// How many deltas may be dropped before the text so far is asked for again.
const ASK_EVERY: u32 = 64;

impl Cursor {
    /// A client of `thread` at `at`, where `iteration` was open. What `at` says beyond its events is believed
    /// only as far as it can be.
    pub(crate) fn new(thread: &str, at: Position, iteration: Option<OpenIteration>) -> Self {
        let believed = iteration.is_some_and(|iteration| match at.open {
            Open::Nothing => true,
            Open::Reasoning(_) | Open::Thought => !iteration.thought && !iteration.said,
            Open::Text(_) => !iteration.said,
        });
        let open = if believed { at.open } else { Open::Nothing };
        let at = Position { open, ..at };
        Self { thread: thread.into(), at, iteration, over: false, dropped: 0, chased: None }
    }

    /// The client has every durable event up to here.
    pub(crate) fn seq(&self) -> i64 {
        self.at.seq
    }

    /// Whether the last thing that happened is the end of a run.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether something is being written, or may be, that live text could tell of.
    pub(crate) fn is_writing(&self) -> bool {
        self.iteration.is_some_and(|iteration| !iteration.said)
    }

    /// Whether `event`, the next one, needs a snapshot of the thread: its messages before this position.
    pub(crate) fn snapshot_before(&self, event: &Committed) -> Option<i64> {
        match self.effect(event) {
            Effect::Void => Some(event.seq),
            Effect::Replace => Some(event.seq + 1),
            Effect::Pass | Effect::Skip | Effect::Complete => None,
        }
        // The end of the text and the snapshot come first: who has both needs none.
        .filter(|_| self.at.frames < 2)
    }

    /// Sends `event`, the next one, with the snapshot it needs.
    pub(crate) fn durable(&mut self, event: &Committed, snapshot: &[SnapshotMessage], emit: Emit<'_>) {
        let context = Context {
            thread: &self.thread,
            step: self.iteration.map(|iteration| iteration.number),
            message: self.iteration.map(|iteration| iteration.message),
        };
        let effect = self.effect(event);
        let frames = self.frames(&context, effect, event, snapshot);
        let open = self.open_after(effect, &event.event);
        let (sent, mut here) = (self.at.frames, self.at);
        let count = frames.len();
        for (frame, number) in frames.iter().zip(1u32..) {
            here.frames = number;
            if number > sent {
                let last = usize::try_from(number).is_ok_and(|number| number == count);
                emit(if last { Position { seq: event.seq, open, frames: 0 } } else { here }, frame);
            }
        }
        let was = std::mem::replace(&mut self.at, Position { seq: event.seq, open, frames: 0 }).open;
        self.dropped = 0;
        self.follow(&event.event, was);
    }

    /// Sends of `delta` what the client does not have, if it has all that comes before.
    pub(crate) fn delta(&mut self, delta: &Delta, emit: Emit<'_>) -> Heard {
        let Some(iteration) = self.iteration else { return self.chase(delta.message_id) };
        if delta.message_id != iteration.message {
            // Ids sort by creation: an older one is late, a newer one early.
            let early = delta.message_id > iteration.message;
            return if early { self.chase(delta.message_id) } else { Heard::Fine };
        }
        if iteration.said || self.at.frames > 0 {
            return Heard::Fine;
        }
        let has = match (delta.part, self.at.open) {
            (Part::Reasoning, Open::Nothing) if !iteration.thought => 0,
            (Part::Reasoning, Open::Reasoning(chars)) => chars,
            (Part::Reasoning, _) => return Heard::Fine,
            (Part::Message, Open::Text(chars)) => chars,
            (Part::Message, Open::Reasoning(chars)) if chars < delta.reasoning_chars => return self.gap(),
            (Part::Message, Open::Nothing) if !iteration.thought && delta.reasoning_chars > 0 => {
                return self.gap();
            }
            (Part::Message, _) => 0,
        };
        if delta.offset > has {
            return self.gap();
        }
        let tail = render::suffix(&delta.text, has - delta.offset);
        if !tail.is_empty() {
            self.dropped = 0;
            self.write(delta.part, iteration.message, has, tail, emit);
        }
        Heard::Fine
    }

    /// Sends `text`, which continues the `has` characters of `part` that were sent.
    fn write(&mut self, part: Part, message: MessageId, has: u32, text: &str, emit: Emit<'_>) {
        let has_now = has.saturating_add(u32::try_from(text.chars().count()).unwrap_or(u32::MAX));
        let timestamp = None;
        let (was, reasoning) = (self.at.open, EntityId::Reasoning(message));
        let mut send = |open: Open, event: Event<'_>| {
            self.at.open = open;
            emit(self.at, &event);
        };
        match part {
            Part::Reasoning => {
                let message_id = reasoning;
                if was == Open::Nothing {
                    let role = Role::Reasoning;
                    send(Open::Reasoning(0), Event::ReasoningMessageStart { timestamp, message_id, role });
                }
                let event = Event::ReasoningMessageContent { timestamp, message_id, delta: text.into() };
                send(Open::Reasoning(has_now), event);
            }
            Part::Message => {
                let message_id = EntityId::Message(message);
                if matches!(was, Open::Reasoning(_)) {
                    send(Open::Thought, Event::ReasoningMessageEnd { timestamp, message_id: reasoning });
                }
                if !matches!(was, Open::Text(_)) {
                    send(
                        Open::Text(0),
                        Event::TextMessageStart { timestamp, message_id, role: Role::Assistant },
                    );
                }
                send(
                    Open::Text(has_now),
                    Event::TextMessageContent { timestamp, message_id, delta: text.into() },
                );
            }
        }
    }

    fn effect(&self, event: &Committed) -> Effect {
        let message = self.iteration.map(|iteration| iteration.message);
        let ends = |chars: u32, text: &str| {
            let has_them = chars == 0 || text.chars().nth(chars as usize - 1).is_some();
            if has_them { Effect::Complete } else { Effect::Replace }
        };
        match (self.at.open, &event.event) {
            (Open::Nothing, _) => Effect::Pass,
            (_, event) if event.is_transparent() => Effect::Pass,
            (Open::Reasoning(chars), Durable::Thought { text }) => match ends(chars, text) {
                // No snapshot holds reasoning: what was sent of it stays.
                Effect::Replace => Effect::Complete,
                effect => effect,
            },
            (Open::Thought | Open::Text(_), Durable::Thought { .. }) => Effect::Skip,
            (Open::Thought, _) => Effect::Pass,
            // Tools may run before the message that was streamed beside them is committed.
            (Open::Text(_), Durable::ToolCalled { .. } | Durable::ToolReturned { .. }) => Effect::Pass,
            (Open::Text(chars), Durable::MessageSent { message_id }) if Some(*message_id) == message => {
                ends(chars, event.body.as_ref().map_or("", |body| &body.content))
            }
            _ => Effect::Void,
        }
    }

    fn open_after(&self, effect: Effect, event: &Durable) -> Open {
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

    fn frames<'a>(
        &self,
        context: &Context<'a>,
        effect: Effect,
        event: &'a Committed,
        snapshot: &'a [SnapshotMessage],
    ) -> Vec<Event<'a>> {
        let timestamp = Some(event.at.timestamp_millis());
        match (effect, context.message) {
            (Effect::Skip, _) => Vec::new(),
            (Effect::Pass, _) | (_, None) => render::frames(context, event),
            (Effect::Complete, Some(message)) => match (self.at.open, &event.event) {
                (Open::Reasoning(chars), Durable::Thought { text }) => {
                    render::reasoning_end(timestamp, EntityId::Reasoning(message), text, chars)
                }
                (Open::Text(chars), _) => {
                    render::text_end(timestamp, EntityId::Message(message), event.body.as_ref(), chars)
                }
                _ => Vec::new(),
            },
            (Effect::Replace | Effect::Void, Some(message)) => {
                let end = match self.at.open {
                    Open::Reasoning(_) => {
                        Event::ReasoningMessageEnd { timestamp, message_id: EntityId::Reasoning(message) }
                    }
                    _ => Event::TextMessageEnd {
                        timestamp,
                        message_id: EntityId::Message(message),
                        metadata: None,
                    },
                };
                let mut frames = vec![end, Event::MessagesSnapshot { timestamp, messages: snapshot.into() }];
                if effect == Effect::Void {
                    frames.extend(render::frames(context, event));
                }
                frames
            }
        }
    }

    /// Remembers what `event`, which met a text that `was` open, means for those after it: above all, which live
    /// text is late from now on.
    fn follow(&mut self, event: &Durable, was: Open) {
        self.over =
            matches!(event, Durable::RunFinished { .. } | Durable::TitleSet { between_runs: true, .. });
        let begun = |message, number| Some(OpenIteration { message, number, thought: false, said: false });
        match event {
            Durable::AttemptStarted { iteration, next_message_id, .. } => {
                self.iteration = begun(*next_message_id, *iteration);
            }
            Durable::StepFinished { iteration, next_message_id } => {
                self.iteration = begun(*next_message_id, iteration + 1);
            }
            Durable::RetryScheduled { .. } | Durable::HandedOver { .. } | Durable::RunFinished { .. } => {
                self.iteration = None;
            }
            Durable::Thought { .. } | Durable::ToolCalled { .. } => {
                if let Some(iteration) = &mut self.iteration {
                    iteration.thought = true;
                }
            }
            Durable::MessageSent { message_id } => {
                if let Some(iteration) = &mut self.iteration {
                    iteration.thought = true;
                    iteration.said |= iteration.message == *message_id || matches!(was, Open::Text(_));
                }
            }
            Durable::RunQueued {}
            | Durable::MessagePosted { .. }
            | Durable::ToolReturned { .. }
            | Durable::ModelFallback { .. }
            | Durable::TeamRouted { .. }
            | Durable::SessionArchived { .. }
            | Durable::ContextCompressed { .. }
            | Durable::TitleSet { .. }
            | Durable::TaskStarted { .. }
            | Durable::TaskEnded { .. }
            | Durable::ErrorShown { .. } => {}
        }
    }

    fn gap(&mut self) -> Heard {
        let ask = self.dropped.is_multiple_of(ASK_EVERY);
        self.dropped += 1;
        if ask { Heard::Gap } else { Heard::Fine }
    }

    /// Once for each message: a late delta of a run that is over must not send every stream to Postgres.
    fn chase(&mut self, message: MessageId) -> Heard {
        let new = self.chased != Some(message);
        self.chased = Some(message);
        if new { Heard::Behind } else { Heard::Fine }
    }
}

#[cfg(test)]
mod tests;
