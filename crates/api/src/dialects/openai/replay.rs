//! A response from the events of its run: what it is, and the state with which its stream goes on. No I/O.

use std::collections::BTreeMap;

use houston_domain::event::{Committed, Event as Durable};
use houston_domain::id::RunId;
use houston_store::event::OpenIteration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::{ResponseId, conversation_id};
use super::stream::{Place, ResponseEvents};
use super::translate::{Head, Translator};
use crate::events::cursor::{Cursor, Needed};
use crate::events::position::{Open, Position};
use crate::events::stream::Dialect as _;

/// The field of a message's metadata with what its request said.
const FIELD: &str = "openai";

/// What a request says that a response repeats: stored in the metadata of its message.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) background: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    /// The names of the client's functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) functions: Vec<String>,
}

impl Said {
    /// As the metadata of a message.
    pub(crate) fn to_metadata(&self) -> Map<String, Value> {
        // Serialising strings cannot fail.
        let said = serde_json::to_value(self).unwrap_or_default();
        Map::from_iter([(FIELD.to_owned(), said)])
    }

    /// What the message says, if it is the first one of a response.
    fn of(event: &Committed) -> Option<Self> {
        Self::deserialize(&event.body.as_ref()?.metadata[FIELD]).ok()
    }

    /// `thread`: Houston's id of the agentable.
    pub(crate) fn head(&self, id: ResponseId, created_at: i64, thread: &str) -> Head {
        Head { id, created_at, conversation: conversation_id(thread), said: self.clone() }
    }
}

/// The parts of a run, one after the other, up to the one that is asked for.
///
/// Each event of the run is passed to [`Self::step`], until that says what to do.
#[derive(Debug)]
pub(super) struct Replay<'r> {
    /// Houston's id of the agentable, and its kind.
    thread: &'r str,
    kind: &'r str,
    asked: ResponseId,
    /// The position before the first event of the run.
    base: i64,
    /// What the client has: a number, and the place that it means; `None`: the whole response is wanted.
    has: Option<(u64, Place)>,
    /// The part before, which waits for an answer.
    last: Option<Translator>,
    said: Said,
    /// How many events of the run are before the part.
    begun: i64,
    part: Option<(Cursor, ResponseEvents)>,
    /// Whether the client was cut off between the events of the last frame of a durable event.
    is_within_frame: bool,
}

/// What to do after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Pass on the next one.
    More,
    /// There is no such part.
    Missing,
    /// The client has nothing of this event, or some frames: [`Replay::up_to`].
    Reached,
    /// The part is over: [`Replay::finish`].
    Over,
}

impl<'r> Replay<'r> {
    pub(super) fn new(
        (thread, kind): (&'r str, &'r str),
        asked: ResponseId,
        base: i64,
        has: Option<(u64, Place)>,
    ) -> Self {
        let said = Said::default();
        let (last, begun, part, is_within_frame) = (None, 0, None, false);
        Self { thread, kind, asked, base, has, last, said, begun, part, is_within_frame }
    }

    /// Whether the event needs the questions for which its run waits.
    pub(super) fn needs_questions(&self, event: &Committed) -> bool {
        matches!(event.event, Durable::RunWaiting { .. })
    }

    /// Whether this is the part that is asked for.
    fn is_asked(&self) -> bool {
        self.begun == self.asked.after
    }

    /// Passes on the first of `events`; those after it are looked at only for what the request said.
    pub(super) fn step(&mut self, events: &[Committed], needed: &Needed) -> Next {
        let Some(event) = events.first() else { return Next::More };
        if self.part.is_none() && !self.begin(events, event) {
            return Next::Missing;
        }
        let is_asked = self.is_asked();
        if is_asked && self.has.is_some_and(|(_, place)| event.seq > place.at.seq + self.base) {
            return Next::Reached;
        }
        let Some((cursor, part)) = &mut self.part else { return Next::Missing };
        part.committed(event);
        let cut = self.has.map(|(_, place)| place).filter(|place| {
            is_asked && place.follow > 0 && place.at.seq + self.base == event.seq && place.is_within_text()
        });
        let mut is_within_frame = false;
        cursor.durable(event, needed, &mut |at, frame| {
            let cut = cut.filter(|_| at.seq == event.seq);
            let open = cut.map_or(at.open, |place| place.at.open);
            let count = part.replay(Position { open, ..at }, frame);
            is_within_frame |= cut.is_some_and(|place| count > place.follow as usize);
        });
        self.is_within_frame = is_within_frame;
        if !part.translator.is_over() {
            return Next::More;
        }
        if is_asked {
            return Next::Over;
        }
        self.last = self.part.take().map(|(_, part)| part.translator);
        Next::More
    }

    /// Begins the part with these events; `false`: it is later than the one that is asked for.
    fn begin(&mut self, events: &[Committed], first: &Committed) -> bool {
        self.begun = first.seq - self.base - 1;
        if self.begun > self.asked.after {
            return false;
        }
        let begins_work = |event: &&Committed| matches!(event.event, Durable::AttemptStarted { .. });
        match events.iter().take_while(|event| !begins_work(event)).find_map(Said::of) {
            Some(said) => self.said = said,
            // Only answers.
            None => self.said.previous = self.last.as_ref().map(|last| last.head.id.to_string()),
        }
        if self.said.model.is_empty() {
            // It was no client of this protocol that posted the message.
            self.kind.clone_into(&mut self.said.model);
        }
        let run: RunId = self.asked.run;
        let id = ResponseId { run, after: self.begun };
        let head = self.said.head(id, first.at.timestamp(), self.thread);
        let translator = match &self.last {
            Some(last) => last.goes_on(head),
            None => Translator::new(head),
        };
        let at = Position::after(first.seq - 1);
        let cursor = Cursor::new(self.thread, at, None).with_interrupts(self.begun > 0);
        let after = self.has.map_or(0, |(number, _)| number);
        self.part = Some((cursor, ResponseEvents::new(translator, self.base, after)));
        true
    }

    /// The client has everything before `next`, and maybe some frames of it. `iteration`: the open one before it.
    pub(super) fn up_to(
        mut self,
        next: &Committed,
        iteration: Option<OpenIteration>,
        needed: &Needed,
    ) -> Option<ResponseEvents> {
        let (_, mut part) = self.part.take()?;
        let (_, place) = self.has?;
        part.reopen(place, self.is_within_frame);
        if place.at.frames > 0 {
            let at = Position { seq: place.at.seq + self.base, frames: 0, ..place.at };
            let mut cursor = Cursor::new(self.thread, at, iteration).with_interrupts(false);
            part.committed(next);
            cursor.durable(next, needed, &mut |at, frame| {
                if at.seq < next.seq && at.frames <= place.at.frames {
                    part.replay(at, frame);
                }
            });
            part.translator.items.after_voided(place.voided);
        }
        Some(part)
    }

    /// There are no more events of the part.
    pub(super) fn finish(self) -> Option<ResponseEvents> {
        let is_asked = self.is_asked();
        let (_, mut part) = self.part.filter(|_| is_asked)?;
        if let Some((_, place)) = self.has.filter(|_| !part.translator.is_over()) {
            part.reopen(place, self.is_within_frame);
        }
        Some(part)
    }
}

impl Place {
    /// Whether the client has a part of a text, not just its beginning, or reasoning that has ended.
    fn is_within_text(self) -> bool {
        matches!(self.at.open, Open::Reasoning(1..) | Open::Thought | Open::Text(1..))
    }
}
