//! Streams of responses: the events of [`Translator`], numbered by their place; and the response of a request that waits for
//! the end.

use houston_domain::event::{Committed, Event as Durable};
use houston_domain::id::MessageId;
use houston_protocol::agui::{EntityId, Event, Role};
use houston_protocol::openai::event::{Numbered, StreamEvent};
use houston_protocol::sse::SseEncoder;
use tokio::time::Instant;

use super::number::{Place, is_after};
use super::translate::Translator;
use crate::events::dialect::Dialect;
use crate::events::position::{Open, Position};

/// A stream of one response.
#[derive(Debug)]
pub(crate) struct ResponseEvents {
    pub(crate) translator: Translator,
    /// The position before the first event of the run.
    base: i64,
    /// The number of the last event that the client has.
    after: u64,
    /// The message of the open iteration.
    message: Option<MessageId>,
    /// Frames that a client lacks which was cut off between the events of one frame.
    missing: SseEncoder,
}

impl ResponseEvents {
    /// The stream of a response of a run whose first event is at `base` + 1, for a client that has the events up to the number
    /// `after`.
    pub(crate) fn new(translator: Translator, base: i64, after: u64) -> Self {
        Self { translator, base, after, message: None, missing: SseEncoder::default() }
    }

    /// Passes on a frame that the client may have. Returns of how many events it consists.
    pub(crate) fn replay(&mut self, at: Position, event: &Event<'_>) -> usize {
        let mut missing = std::mem::take(&mut self.missing);
        let count = self.write(at, event, &mut missing);
        self.missing = missing;
        count
    }

    /// The client has the beginning of the open text, as `place` says.
    ///
    /// `is_within_frame`: `place` is between the events of a durable event's frame, which came after the end of the
    /// reasoning; otherwise a place after reasoning may be between the events that end it.
    pub(crate) fn reopen(&mut self, place: Place, is_within_frame: bool) {
        self.translator.after_voided(place.voided);
        let Some(message) = self.message else { return };
        let (text, reasoning) = (EntityId::Message(message), EntityId::Reasoning(message));
        let (timestamp, seq) = (None, place.at.seq + self.base);
        let at = |open| Position { seq, open, frames: 0 };
        match place.at.open {
            Open::Nothing => {}
            Open::Text(_) => {
                let start = Event::TextMessageStart { timestamp, message_id: text, role: Role::Assistant };
                self.replay(at(Open::Text(0)), &start);
                self.translator.has_beginning(text);
            }
            open => {
                let start =
                    Event::ReasoningMessageStart { timestamp, message_id: reasoning, role: Role::Reasoning };
                self.replay(at(Open::Reasoning(0)), &start);
                self.translator.has_beginning(reasoning);
                if open == Open::Thought {
                    let end = Event::ReasoningMessageEnd { timestamp, message_id: reasoning };
                    self.replay(at(if is_within_frame { Open::Reasoning(0) } else { open }), &end);
                }
            }
        }
    }

    /// The frames that the client lacks of what was replayed.
    pub(crate) fn take_missing(&mut self) -> Vec<u8> {
        self.missing.take().unwrap_or_default()
    }

    /// Returns of how many events the frame consists.
    fn write(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder) -> usize {
        let at = Position { seq: at.seq - self.base, ..at };
        let (voided, after) = (self.translator.voided(), self.after);
        if let Some(delta) = self.translator.delta(event) {
            push(frames, &delta, Place { at, follow: 0, voided }.number(), after);
            return 1;
        }
        let events = self.translator.push(event);
        let voided = self.translator.voided();
        for (event, follow) in events.iter().zip((0..events.len()).rev()) {
            let follow = u32::try_from(follow).unwrap_or(u32::MAX);
            push(frames, event, Place { at, follow, voided }.number(), after);
        }
        events.len()
    }
}

fn push(frames: &mut SseEncoder, event: &StreamEvent<'_>, sequence_number: u64, after: u64) {
    if is_after(sequence_number, after) {
        frames.push_named(Some(event.name()), &Numbered { event, sequence_number });
    }
}

impl Dialect for ResponseEvents {
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        if !self.missing.is_empty() {
            frames.push_raw(&self.take_missing());
        }
        self.write(at, event, frames);
    }

    fn committed(&mut self, event: &Committed) {
        if let Durable::AttemptStarted { next_message_id, .. }
        | Durable::StepFinished { next_message_id, .. } = &event.event
        {
            self.message = Some(*next_message_id);
        }
        self.translator.committed(event);
    }

    fn idle(&mut self, frames: &mut SseEncoder) -> &'static [u8] {
        frames.push_raw(&self.take_missing());
        houston_protocol::sse::HEARTBEAT
    }

    fn is_done(&self) -> bool {
        self.translator.is_over()
    }
}

/// The body of a request that waits: blank lines, so that nothing between here and the client gives up, and then the response.
#[derive(Debug)]
pub(crate) struct Waiting {
    translator: Translator,
    /// Then the response is written as it is.
    until: Instant,
    is_written: bool,
}

impl Waiting {
    pub(crate) fn new(translator: Translator, until: Instant) -> Self {
        Self { translator, until, is_written: false }
    }

    fn write(&mut self, frames: &mut SseEncoder) {
        // Serialising strings and numbers cannot fail.
        frames.push_raw(&serde_json::to_vec(&self.translator.response()).unwrap_or_default());
        self.is_written = true;
    }
}

impl Dialect for Waiting {
    fn push(&mut self, _: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        if self.is_written || self.translator.delta(event).is_some() {
            return;
        }
        self.translator.push(event);
        if self.translator.is_over() {
            self.write(frames);
        }
    }

    fn committed(&mut self, event: &Committed) {
        self.translator.committed(event);
    }

    fn idle(&mut self, frames: &mut SseEncoder) -> &'static [u8] {
        if !self.is_written && Instant::now() >= self.until {
            self.write(frames);
        }
        b"\n"
    }

    fn is_done(&self) -> bool {
        self.is_written
    }
}
