//! [`Reader`]: turns the durable events and the deltas of a run into [`Event`]s; without I/O.
//!
//! Deltas may be lost. A delta is passed on only if it continues what was passed on before; the durable event that ends a text
//! brings the rest of it, or says that the text is void.

use std::collections::VecDeque;

use houston_domain::event::{Committed, Delta, Event as Durable, Part};
use houston_domain::id::{MessageId, RunId};
use houston_domain::run::RunStatus;

use crate::event::{Answer, Event, Failure};
use crate::question::Question;

/// Reads the events of one run.
#[derive(Debug)]
pub(crate) struct Reader {
    run: RunId,
    /// The position of the last durable event.
    pub(crate) seq: i64,
    /// The id that a message of the open iteration will have.
    open: Option<MessageId>,
    /// The pieces of that message that were passed on.
    streamed: String,
    /// The last message.
    text: String,
    /// Questions without an answer.
    pub(crate) unanswered: Vec<Question>,
    /// Whether the run has ended.
    pub(crate) is_over: bool,
    events: VecDeque<Event>,
}

impl Reader {
    /// A reader of the events of `run`, all of which come after the position `seq`.
    pub(crate) fn new(run: RunId, seq: i64) -> Self {
        Self {
            run,
            seq,
            open: None,
            streamed: String::new(),
            text: String::new(),
            unanswered: Vec::new(),
            is_over: false,
            events: VecDeque::new(),
        }
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes a delta.
    pub(crate) fn delta(&mut self, delta: &Delta) {
        if delta.part != Part::Message || self.open != Some(delta.message_id) || self.is_over {
            return;
        }
        let has = self.streamed.chars().count();
        let overlap = usize::try_from(delta.offset).ok().and_then(|offset| has.checked_sub(offset));
        if let Some(overlap) = overlap {
            self.add(delta.text.chars().skip(overlap).collect());
        }
    }

    fn add(&mut self, piece: String) {
        if !piece.is_empty() {
            self.streamed.push_str(&piece);
            self.events.push_back(Event::Text(piece));
        }
    }

    /// Takes the next durable event. Events of other runs only advance the position.
    pub(crate) fn durable(&mut self, committed: Committed) {
        let Committed { seq, run_id, event, body, .. } = committed;
        self.seq = seq;
        if run_id != self.run || self.is_over {
            return;
        }
        match event {
            Durable::AttemptStarted { next_message_id, .. }
            | Durable::StepFinished { next_message_id, .. } => {
                self.discard();
                self.open = Some(next_message_id);
            }
            Durable::MessageSent { message_id } => {
                self.message(message_id, body.map(|body| body.content).unwrap_or_default());
            }
            Durable::Thought { text, withdrawn_at } => {
                if withdrawn_at.is_some() {
                    self.discard();
                    // What follows of it is late.
                    self.open = None;
                }
                self.events.push_back(Event::Thinking(text));
            }
            Durable::ToolCalled { call_id, name, input, .. } => {
                self.events.push_back(Event::ToolCalled { call: call_id, name, input });
            }
            Durable::ToolReturned { call_id, content, is_error, .. } => {
                self.events.push_back(Event::ToolReturned { call: call_id, text: content, is_error });
            }
            Durable::QuestionAsked(asked) => {
                let question = Question::new(self.run, *asked);
                self.unanswered.push(question.clone());
                self.events.push_back(Event::Question(question));
            }
            Durable::QuestionClosed(closed) => self.unanswered.retain(|open| open.id != closed.id),
            Durable::RunWaiting { .. } => self.ends_attempt(Some(Event::Waiting)),
            Durable::RetryScheduled { message, retry_at: at, .. } => {
                self.ends_attempt(Some(Event::Retrying { message, at }));
            }
            Durable::HandedOver { .. } => self.ends_attempt(None),
            Durable::RunFinished { status, usage, message, code, result, .. } => {
                self.ends_attempt(None);
                let run = self.run;
                let text = std::mem::take(&mut self.text);
                let failure = failure(status, code, message);
                let result = result.map(|result| *result);
                self.events.push_back(Event::Finished(Answer { text, run, status, usage, failure, result }));
                self.is_over = true;
            }
            _ => {}
        }
    }

    fn message(&mut self, id: MessageId, content: String) {
        if self.open == Some(id) && content.starts_with(&self.streamed) {
            let rest = content[self.streamed.len()..].to_owned();
            self.add(rest);
            self.streamed.clear();
        } else {
            self.discard();
            self.events.push_back(Event::Text(content.clone()));
        }
        self.text.clone_from(&content);
        self.events.push_back(Event::Message(content));
    }

    /// What was passed on of a message will not be completed.
    fn discard(&mut self) {
        if !std::mem::take(&mut self.streamed).is_empty() {
            self.events.push_back(Event::TextDiscarded);
        }
    }

    fn ends_attempt(&mut self, event: Option<Event>) {
        self.discard();
        self.open = None;
        self.events.extend(event);
    }
}

fn failure(status: RunStatus, code: Option<String>, message: Option<String>) -> Option<Failure> {
    let is_failure = matches!(status, RunStatus::Failed | RunStatus::DeadLettered | RunStatus::Cancelled);
    let of_status = || status.notice().unwrap_or(status.as_str()).to_owned();
    is_failure.then(|| Failure { code, message: message.unwrap_or_else(of_status) })
}

#[cfg(test)]
mod tests;
