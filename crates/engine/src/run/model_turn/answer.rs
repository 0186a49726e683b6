//! Reading an answer while it is being written: its text goes to streams piece by piece.

use futures_util::StreamExt;
use houston_domain::agent::Reply;
use houston_domain::agent::SEND_MESSAGE;
use houston_domain::agent::partial_json::StringProperty;
use houston_domain::event::Part;
use houston_domain::history::Block;
use houston_domain::model::{ModelAnswer as Answer, ModelError, ModelErrorCode, StopReason};
use houston_domain::overseer::{RepeatedText, Repetition};
use houston_domain::submission::SubmittedCall;
use houston_llm::{Description, Event, EventStream, Switch};
use tokio::time::Instant;

use crate::live::LiveRun;
use crate::setup::guards::Shown;

/// The model that answers, the fallbacks before it where several models may answer, and how much of an answer is read.
/// Boxed, because it is held while the run waits for its model.
#[derive(Default)]
pub(super) struct Answerer {
    pub(super) answering: Option<Box<Description>>,
    pub(super) switches: Vec<Switch>,
    /// When the first piece of the answer came.
    pub(super) first: Option<Instant>,
    /// What streams show, if addresses in it must lead nowhere.
    pub(super) shown: Option<Shown>,
    pub(super) plain: Plain,
    /// After so many bytes an answer is cut off.
    pub(super) most_bytes: usize,
    /// When it is cut off because it repeats itself.
    pub(super) repeated: RepeatedText,
}

/// What text outside of `send_message` is, where that is how an agent replies.
#[derive(Debug, Default)]
pub(super) enum Plain {
    /// Reasoning: nobody waits for an answer, or a call has followed.
    #[default]
    Thought,
    /// It may be the answer, and is not streamed yet.
    Held(String),
    /// The answer, unless a call follows: then what was streamed of it is withdrawn.
    Answer,
}

/// How many characters of text are held, because a call may follow. What a model says before its calls is rarely longer, and text
/// that was streamed must be withdrawn then, as that of an attempt that broke off: streams end it and replace the whole thread.
const HELD_CHARS: usize = 160;

/// What has come instead of an answer, or the answer.
pub(super) enum Read {
    Answer(Box<Answer>),
    /// The answer comes later; `None`: it does not come.
    Submitted(Option<Box<SubmittedCall>>),
}

/// Reads the answer to its end and streams its text. Events that are ready together are streamed as one delta. Fails with
/// `InvalidResponse` if it is too long, or repeats itself.
pub(super) async fn read(
    stream: EventStream,
    live: &LiveRun,
    reply: Reply,
    answerer: &mut Answerer,
) -> Result<Read, ModelError> {
    let mut bytes = 0;
    let most = answerer.most_bytes;
    let mut repetition = Repetition::new(answerer.repeated);
    let mut chunks = stream.ready_chunks(64);
    let mut writer = Writer {
        live,
        reply,
        sending: None,
        message_begun: false,
        plain: &mut answerer.plain,
        shown: answerer.shown.as_mut(),
        pending: None,
    };
    while let Some(events) = chunks.next().await {
        let mut done = None;
        for event in events {
            match event? {
                Event::Done(turn) => done = Some(turn),
                Event::Fallback(switch) => answerer.switches.push(*switch),
                Event::Answering(answering) => answerer.answering = Some(answering),
                Event::Submitted(call) => return Ok(Read::Submitted(Some(call))),
                Event::Gone => return Ok(Read::Submitted(None)),
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
                    writer.take(event);
                }
            }
        }
        if bytes > most {
            let message = format!("the model's answer is longer than {most} bytes: it was cut off");
            return Err(ModelError::new(ModelErrorCode::InvalidResponse, message));
        }
        if let Some(turn) = &done
            && turn.stop != StopReason::Paused
        {
            let is_call = |block: &Block| matches!(block, Block::ToolUse { .. });
            if turn.content.iter().any(is_call) {
                writer.call_follows()
            } else {
                writer.answer()
            }
            writer.finish();
        }
        writer.flush();
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

/// Decides which parts of an answer are streamed as reasoning, and which as the message.
struct Writer<'l> {
    live: &'l LiveRun,
    reply: Reply,
    /// Index of the `send_message` call that is being written, and the decoder of its `content`.
    sending: Option<(usize, StringProperty)>,
    message_begun: bool,
    plain: &'l mut Plain,
    shown: Option<&'l mut Shown>,
    /// Text of a part that is not streamed yet.
    pending: Option<(Part, String)>,
}

impl Writer<'_> {
    /// Adds what can be shown of a piece. What is held of the reasoning comes before the message.
    fn add(&mut self, part: Part, text: &str) {
        let Some(shown) = &mut self.shown else { return self.write(part, text) };
        let rest = if part == Part::Message { shown.finish(Part::Reasoning) } else { String::new() };
        let text = shown.push(part, text);
        self.write(Part::Reasoning, &rest);
        self.write(part, &text);
    }

    /// Adds what is held: the answer is over.
    fn finish(&mut self) {
        for part in [Part::Reasoning, Part::Message] {
            let rest = self.shown.as_mut().map(|shown| shown.finish(part)).unwrap_or_default();
            self.write(part, &rest);
        }
    }

    fn write(&mut self, part: Part, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.pending.as_ref().is_some_and(|(of, _)| *of != part) {
            self.flush();
        }
        self.pending.get_or_insert_with(|| (part, String::new())).1.push_str(text);
    }

    fn flush(&mut self) {
        if let Some((part, text)) = self.pending.take() {
            self.live.write(part, &text);
        }
    }

    /// A call follows: the text before it is not the answer.
    fn call_follows(&mut self) {
        match std::mem::take(self.plain) {
            Plain::Thought => {}
            Plain::Held(text) => self.add(Part::Reasoning, &text),
            Plain::Answer => {
                self.finish();
                self.flush();
                self.live.withdraw();
            }
        }
    }

    /// The text that is held is the answer.
    fn answer(&mut self) {
        if matches!(&*self.plain, Plain::Held(text) if !text.trim().is_empty())
            && let Plain::Held(text) = std::mem::replace(self.plain, Plain::Answer)
        {
            self.live.draft();
            self.add(Part::Message, &text);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Thinking(text) if !self.message_begun && !matches!(self.plain, Plain::Answer) => {
                self.add(Part::Reasoning, &text);
            }
            Event::Text(text) => match (self.reply, &mut *self.plain) {
                (Reply::Text, _) => {
                    self.message_begun = true;
                    self.add(Part::Message, &text);
                }
                (Reply::SendMessage, Plain::Answer) => self.add(Part::Message, &text),
                (Reply::SendMessage, Plain::Held(held)) => {
                    held.push_str(&text);
                    if held.trim().chars().nth(HELD_CHARS).is_some() {
                        self.answer();
                    }
                }
                (Reply::SendMessage, Plain::Thought) if !self.message_begun => {
                    self.add(Part::Reasoning, &text);
                }
                (Reply::SendMessage, Plain::Thought) => {}
            },
            Event::ToolStart { index, name, .. } if self.reply == Reply::SendMessage => {
                self.call_follows();
                if name == SEND_MESSAGE && self.sending.is_none() {
                    self.sending = Some((index, StringProperty::new("content")));
                }
            }
            Event::ToolArguments { index, json } => {
                if let Some((_, content)) = self.sending.as_mut().filter(|(sending, _)| *sending == index) {
                    let text = content.push(&json);
                    if !text.is_empty() {
                        self.message_begun = true;
                        self.add(Part::Message, &text);
                    }
                }
            }
            _ => {}
        }
    }
}
