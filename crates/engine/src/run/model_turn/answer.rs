//! Reading an answer while it is being written: its text goes to streams piece by piece.

use futures_util::StreamExt;
use houston_domain::agent::Reply;
use houston_domain::agent::SEND_MESSAGE;
use houston_domain::agent::partial_json::StringProperty;
use houston_domain::event::Part;
use houston_domain::model::{ModelAnswer as Answer, ModelError, ModelErrorCode, StopReason};
use houston_domain::overseer::{RepeatedText, Repetition};
use houston_domain::submission::SubmittedCall;
use houston_llm::{Description, Event, EventStream, Switch};
use tokio::time::Instant;

use crate::live::LiveRun;
use crate::setup::guards::Shown;

/// The model that answers, and the fallbacks before it, where several models may answer.
#[derive(Default)]
pub(super) struct Answerer {
    pub(super) answering: Option<Box<Description>>,
    pub(super) switches: Vec<Switch>,
    /// When the first piece of the answer came.
    pub(super) first: Option<Instant>,
    /// What streams show, if addresses in it must lead nowhere.
    pub(super) shown: Option<Box<Shown>>,
}

/// What has come instead of an answer, or the answer.
pub(super) enum Read {
    Answer(Box<Answer>),
    /// It comes later.
    Submitted(Box<SubmittedCall>),
    /// It does not come.
    Gone,
}

/// When an answer is cut off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// After so many bytes.
    pub(super) most: usize,
    /// When it repeats itself.
    pub(super) repeated: RepeatedText,
}

/// Reads the answer to its end and streams its text. Events that are ready together are streamed as one delta. Fails with
/// `InvalidResponse` beyond the bounds.
pub(super) async fn read(
    stream: EventStream,
    live: &LiveRun,
    reply: Reply,
    Bounds { most, repeated }: Bounds,
    answerer: &mut Answerer,
) -> Result<Read, ModelError> {
    let mut bytes = 0;
    let mut repetition = Repetition::new(repeated);
    let mut chunks = stream.ready_chunks(64);
    let mut writer = Writer { live, reply, sending: None, message_begun: false };
    while let Some(events) = chunks.next().await {
        let mut done = None;
        let mut pending = Pending::default();
        for event in events {
            match event? {
                Event::Done(turn) => done = Some(turn),
                Event::Fallback(switch) => answerer.switches.push(*switch),
                Event::Answering(answering) => answerer.answering = Some(answering),
                Event::Submitted(call) => return Ok(Read::Submitted(call)),
                Event::Gone => return Ok(Read::Gone),
                event => {
                    answerer.first.get_or_insert_with(Instant::now);
                    bytes += length(&event);
                    if let Event::Text(text) | Event::Thinking(text) = &event
                        && repetition.push(text)
                    {
                        let message =
                            "the model's answer repeated the same text again and again: it was cut off";
                        return Err(ModelError::new(ModelErrorCode::InvalidResponse, message));
                    }
                    writer.take(event, &mut pending, answerer.shown.as_deref_mut());
                }
            }
        }
        if bytes > most {
            let message = format!("the model's answer is longer than {most} bytes: it was cut off");
            return Err(ModelError::new(ModelErrorCode::InvalidResponse, message));
        }
        if let (Some(turn), Some(shown)) = (&done, answerer.shown.as_deref_mut())
            && turn.stop != StopReason::Paused
        {
            pending.finish(shown, live);
        }
        pending.flush(live);
        houston_faults::fault!("C7").map_err(|error| broken(error.into()))?;
        if let Some(turn) = done {
            return Ok(Read::Answer(turn));
        }
    }
    Err(ModelError::new(ModelErrorCode::InvalidResponse, "the model's answer ended before it was complete"))
}

/// The error of an injected fault, as a broken stream. Only in tests.
fn broken(error: houston_store::Error) -> ModelError {
    ModelError::new(ModelErrorCode::NetworkError, error.to_string())
}

/// Bytes the model wrote in this event.
fn length(event: &Event) -> usize {
    match event {
        Event::Text(text) | Event::Thinking(text) => text.len(),
        Event::ToolArguments { json, .. } => json.len(),
        _ => 0,
    }
}

/// Text of one part (reasoning or message) that is not streamed yet.
#[derive(Default)]
struct Pending {
    part: Option<Part>,
    text: String,
}

impl Pending {
    /// Adds what can be shown of a piece. What is held of the reasoning comes before the message.
    fn add(&mut self, part: Part, text: &str, live: &LiveRun, shown: Option<&mut Shown>) {
        let Some(shown) = shown else { return self.write(part, text, live) };
        if part == Part::Message {
            let rest = shown.finish(Part::Reasoning);
            self.write(Part::Reasoning, &rest, live);
        }
        let text = shown.push(part, text);
        self.write(part, &text, live);
    }

    /// Adds what is held: the answer is over.
    fn finish(&mut self, shown: &mut Shown, live: &LiveRun) {
        for part in [Part::Reasoning, Part::Message] {
            let rest = shown.finish(part);
            self.write(part, &rest, live);
        }
    }

    fn write(&mut self, part: Part, text: &str, live: &LiveRun) {
        if text.is_empty() {
            return;
        }
        if self.part != Some(part) {
            self.flush(live);
            self.part = Some(part);
        }
        self.text.push_str(text);
    }

    fn flush(&mut self, live: &LiveRun) {
        if let Some(part) = self.part.take() {
            live.write(part, &self.text);
            self.text.clear();
        }
    }
}

/// Decides which parts of an answer are streamed as reasoning, and which as the message.
struct Writer<'l> {
    live: &'l LiveRun,
    reply: Reply,
    /// Index of the `send_message` call that is being written, and the decoder of its `content`.
    sending: Option<(usize, StringProperty)>,
    message_begun: bool,
}

impl Writer<'_> {
    fn take(&mut self, event: Event, pending: &mut Pending, shown: Option<&mut Shown>) {
        match event {
            Event::Thinking(text) if !self.message_begun => {
                pending.add(Part::Reasoning, &text, self.live, shown)
            }
            Event::Text(text) => match self.reply {
                Reply::Text => {
                    self.message_begun = true;
                    pending.add(Part::Message, &text, self.live, shown);
                }
                Reply::SendMessage if !self.message_begun => {
                    pending.add(Part::Reasoning, &text, self.live, shown)
                }
                Reply::SendMessage => {}
            },
            Event::ToolStart { index, name, .. }
                if self.reply == Reply::SendMessage && name == SEND_MESSAGE && self.sending.is_none() =>
            {
                self.sending = Some((index, StringProperty::new("content")));
            }
            Event::ToolArguments { index, json } => {
                if let Some((_, content)) = self.sending.as_mut().filter(|(sending, _)| *sending == index) {
                    let text = content.push(&json);
                    if !text.is_empty() {
                        self.message_begun = true;
                        pending.add(Part::Message, &text, self.live, shown);
                    }
                }
            }
            _ => {}
        }
    }
}
