//! Streams of responses: the events of [`Translator`], numbered by their place; and the response of a request that waits for
//! the end.
//!
//! # Numbers
//! The `sequence_number` of an event: its position in the stream of its response. A client that sends it back resumes
//! there, and nothing is stored about the client.
//!
//! It is below 2^53, which JavaScript can hold. From the highest bit:
//!
//! | bits | |
//! |---|---|
//! | 20 | the durable event, counted from the beginning of the run |
//! | 4 | frames of the next one |
//! | 2 | what is open of the current iteration: nothing, reasoning, all of it, its message |
//! | 21 | characters of that |
//! | 3 | how many events of the same frame follow (the frame's number less those) |
//! | 3 | items so far that no durable event has confirmed, and that are gone |

use houston_domain::event::{Committed, Event as Durable};
use houston_domain::id::MessageId;
use houston_protocol::agui::{EntityId, Event, Role};
use houston_protocol::sse::SseEncoder;
use tokio::time::Instant;

use super::translate::Translator;
use crate::events::position::{Open, Position};
use crate::events::stream::Dialect;

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
        self.translator.items.after_voided(place.voided);
        let Some(message) = self.message else { return };
        let (text, reasoning) = (EntityId::Message(message), EntityId::Reasoning(message));
        let (timestamp, seq) = (None, place.at.seq + self.base);
        let at = |open| Position { seq, open, frames: 0 };
        match place.at.open {
            Open::Nothing => {}
            Open::Text(_) => {
                let start = Event::TextMessageStart {
                    timestamp,
                    message_id: text,
                    role: Role::Assistant,
                    is_draft: false,
                };
                self.replay(at(Open::Text(0)), &start);
                self.translator.items.has_beginning(text);
            }
            open => {
                let start =
                    Event::ReasoningMessageStart { timestamp, message_id: reasoning, role: Role::Reasoning };
                self.replay(at(Open::Reasoning(0)), &start);
                self.translator.items.has_beginning(reasoning);
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
        let events = self.translator.push(event);
        let (count, voided) = (events.len(), self.translator.items.voided);
        for (mut event, follow) in events.into_iter().zip((0..count).rev()) {
            let follow = u32::try_from(follow).unwrap_or(u32::MAX);
            event.sequence_number = Place { at, follow, voided }.number();
            if is_after(event.sequence_number, self.after) {
                frames.push_named(event.name, &event);
            }
        }
        count
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
    pub(super) translator: Translator,
    /// Then the response is written as it is.
    pub(super) until: Instant,
    pub(super) is_written: bool,
}

impl Waiting {
    fn write(&mut self, frames: &mut SseEncoder) {
        // Serialising strings and numbers cannot fail.
        frames.push_raw(&serde_json::to_vec(&self.translator.response()).unwrap_or_default());
        self.is_written = true;
    }
}

impl Dialect for Waiting {
    fn push(&mut self, _: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        if self.is_written {
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

const SEQ_BITS: u32 = 20;
const FRAME_BITS: u32 = 4;
const OPEN_BITS: u32 = 2;
const CHAR_BITS: u32 = 21;
const FOLLOW_BITS: u32 = 3;
const VOID_BITS: u32 = 3;

/// An event's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The position after the frame that the event belongs to, with `seq` counted from the beginning of the run.
    pub(crate) at: Position,
    /// How many events of the frame follow.
    pub(crate) follow: u32,
    /// How many items were taken back.
    pub(crate) voided: u32,
}

/// The most that fits into so many bits, or `value`.
fn fit(value: impl TryInto<u64>, bits: u32) -> u64 {
    let most = (1 << bits) - 1;
    value.try_into().map_or(most, |value: u64| value.min(most))
}

impl Place {
    /// The number. Later positions in a stream have larger ones.
    pub(crate) fn number(self) -> u64 {
        let (open, chars) = match self.at.open {
            Open::Nothing => (0, 0),
            Open::Reasoning(chars) => (1, chars),
            Open::Thought => (2, 0),
            Open::Text(chars) => (3, chars),
        };
        let seq = if self.at.seq < 0 { 0 } else { fit(self.at.seq, SEQ_BITS) };
        let mut number = seq;
        for (value, bits) in [
            (fit(self.at.frames, FRAME_BITS), FRAME_BITS),
            (open, OPEN_BITS),
            (fit(chars, CHAR_BITS), CHAR_BITS),
            (0, FOLLOW_BITS),
        ] {
            number = number << bits | value;
        }
        number.saturating_sub(fit(self.follow, FOLLOW_BITS)) << VOID_BITS | fit(self.voided, VOID_BITS)
    }

    /// The place of a number.
    pub(crate) fn of(number: u64) -> Self {
        let voided = part(number, VOID_BITS);
        let number = number >> VOID_BITS;
        let frame = number.div_ceil(1 << FOLLOW_BITS);
        let follow = part((frame << FOLLOW_BITS) - number, FOLLOW_BITS);
        let chars = part(frame, CHAR_BITS);
        let frame = frame >> CHAR_BITS;
        let open = match part(frame, OPEN_BITS) {
            0 => Open::Nothing,
            1 => Open::Reasoning(chars),
            2 => Open::Thought,
            _ => Open::Text(chars),
        };
        let frame = frame >> OPEN_BITS;
        let seq = i64::try_from(frame >> FRAME_BITS).unwrap_or(i64::MAX);
        Self { at: Position { seq, open, frames: part(frame, FRAME_BITS) }, follow, voided }
    }
}

/// Whether a client that has the event with number `has` lacks the one with `number`. How many items were taken back says
/// nothing about the order.
fn is_after(number: u64, has: u64) -> bool {
    number >> VOID_BITS > has >> VOID_BITS
}

/// The lowest `bits` of a number.
fn part(number: u64, bits: u32) -> u32 {
    u32::try_from(number & ((1 << bits) - 1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn open() -> impl Strategy<Value = Open> {
        prop_oneof![
            Just(Open::Nothing),
            (0..2_000_000u32).prop_map(Open::Reasoning),
            Just(Open::Thought),
            (0..2_000_000u32).prop_map(Open::Text),
        ]
    }

    fn place() -> impl Strategy<Value = Place> {
        (1..1_000_000i64, open(), 0..15u32, 0..8u32, 0..8u32).prop_map(
            |(seq, open, frames, follow, voided)| Place {
                at: Position { seq, open, frames },
                follow,
                voided,
            },
        )
    }

    proptest! {
        #[test]
        fn numbers_round_trip_below_two_to_the_53rd(place in place()) {
            let number = place.number();
            prop_assert!(number < 1 << 53);
            prop_assert_eq!(Place::of(number), place);
        }

        #[test]
        fn any_number_is_some_place(number in 0..1u64 << 53) {
            let at = Place::of(number).at;
            prop_assert!((0..=1 << 20).contains(&at.seq));
        }
    }

    #[test]
    fn later_positions_have_larger_numbers() {
        let at = |seq, open, frames, follow| {
            Place { at: Position { seq, open, frames }, follow, voided: 0 }.number()
        };
        let numbers = [
            at(1, Open::Nothing, 0, 7),
            at(1, Open::Nothing, 0, 0),
            at(1, Open::Reasoning(0), 0, 1),
            at(1, Open::Reasoning(0), 0, 0),
            at(1, Open::Reasoning(900), 0, 0),
            at(1, Open::Thought, 0, 2),
            at(1, Open::Thought, 0, 0),
            at(1, Open::Text(0), 0, 1),
            at(1, Open::Text(3), 0, 0),
            at(1, Open::Text(3), 1, 7),
            at(1, Open::Text(3), 1, 0),
            at(2, Open::Nothing, 0, 7),
            at(2, Open::Text(3), 0, 0),
        ];
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}
