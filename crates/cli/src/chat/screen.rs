//! What a conversation looks like: events in, text out, without I/O.
//!
//! What was said stays. What may change (that the agent thinks, how long until the next attempt, what was typed while
//! an answer is written) passes below it, on terminals alone.

mod line;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::{BTreeMap, VecDeque};

use chrono::{DateTime, Utc};

use self::line::Line;
use super::event::{Custom, Event, Posted, Spoken};
use super::notice::notice;
use super::output::{Channel, Output, Paint, Passing, one_line};

/// How it looks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// A person is asked for messages.
    pub(crate) interactive: bool,
    /// … by an editor, which shows the prompt and the line.
    pub(crate) edited: bool,
    /// Where the talk goes is a terminal, whose last rows can be erased.
    pub(crate) live: bool,
    /// … and understands colours.
    pub(crate) colour: bool,
    /// Show what the agent thinks.
    pub(crate) thoughts: bool,
}

/// The screen.
#[derive(Debug)]
pub(crate) struct Screen {
    style: Style,
    line: Line,
    running: bool,
    /// The message that is being written, or was written last in this run, as far as it is shown.
    message: Option<(String, String)>,
    /// Tool calls at work, by id.
    cells: BTreeMap<String, String>,
    next_attempt: Option<NextAttempt>,
    /// Messages typed here that the stream has not told of.
    typed: VecDeque<String>,
    /// Lines typed while a message is written: they are shown after it.
    held: Vec<String>,
    /// What passes now.
    passing: Option<Passing>,
    /// What the agent thinks, until it is known whether it is the answer.
    thought: Option<String>,
}

/// When a run that failed is tried again.
#[derive(Debug)]
struct NextAttempt {
    number: u32,
    of: u32,
    at: DateTime<Utc>,
}

impl NextAttempt {
    fn told(&self, now: DateTime<Utc>) -> String {
        let seconds = ((self.at - now).num_milliseconds().max(0) + 999) / 1000;
        format!("retry {} of {} in {seconds} s", self.number, self.of)
    }
}

const THINKING: &str = "thinking…";
/// How many rows of a thought pass by while it comes, unless thoughts are asked for.
const GLIMPSE: usize = 6;

impl Screen {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            line: Line::Start,
            running: false,
            message: None,
            cells: BTreeMap::new(),
            next_attempt: None,
            typed: VecDeque::new(),
            held: Vec::new(),
            passing: None,
            thought: None,
        }
    }

    /// Whether an answer is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.running || !self.typed.is_empty()
    }

    /// Whether [`Self::tick`] has something to count.
    pub(crate) fn is_counting(&self) -> bool {
        self.style.live && self.next_attempt.is_some()
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &Event, now: DateTime<Utc>) -> Output {
        let mut out = Output::default();
        match event {
            Event::RunStarted { .. } => {
                self.running = true;
                self.message = None;
                self.pass(THINKING);
            }
            Event::TextMessageStart { message_id } => {
                self.clear(&mut out);
                self.message = Some((message_id.clone(), String::new()));
            }
            Event::TextMessageContent { message_id, delta } => self.say(&mut out, message_id, delta),
            Event::TextMessageEnd { .. } => self.clear(&mut out),
            Event::ReasoningMessageStart { .. } => {
                self.settle(&mut out, "");
                self.pass(THINKING);
            }
            Event::ReasoningMessageContent { delta, .. } => self.think(&mut out, delta),
            Event::ReasoningMessageEnd { .. } => self.clear_thought(&mut out),
            Event::ToolCallStart { tool_call_id, tool_call_name } => {
                self.settle(&mut out, "");
                self.begin_cell(&mut out, tool_call_id, tool_call_name);
            }
            Event::ToolCallResult { tool_call_id, content, metadata } => {
                let failed = metadata.houston.is_error.then_some(content.as_str());
                self.end_cell(&mut out, tool_call_id, failed);
            }
            Event::MessagesSnapshot { messages } => self.correct(&mut out, messages),
            Event::Custom(custom) => self.fact(&mut out, custom, now),
            Event::RunFinished { outcome, .. } => {
                self.settle(&mut out, "");
                if outcome.as_ref().is_some_and(|outcome| outcome.name == "cancelled") {
                    self.talk(&mut out, Paint::Dim, "cancelled");
                }
                self.end_run(&mut out);
            }
            Event::RunError { message, code } => {
                self.settle(&mut out, "");
                let code = code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
                self.talk(&mut out, Paint::Red, &format!("✗ {}{code}", one_line(message)));
                self.end_run(&mut out);
            }
            Event::Other => {}
        }
        self.below(out)
    }

    /// Counts down to the next attempt.
    pub(crate) fn tick(&mut self, now: DateTime<Utc>) -> Output {
        if let Some(next) = &self.next_attempt {
            let told = next.told(now);
            self.pass(&told);
        }
        self.below(Output::default())
    }

    /// A person ended a line. Where an editor showed it, it was taken back: it stands here from now on, or as soon as
    /// the message that is being written ends.
    pub(crate) fn entered(&mut self, text: &str) -> Output {
        let mut out = Output::default();
        if !self.style.edited {
            self.line = Line::Start;
        } else if text.trim().is_empty() {
        } else if self.line == Line::Text(Channel::Reply) {
            self.held.push(text.to_owned());
        } else {
            self.talk(&mut out, Paint::Bold, &format!("> {text}"));
        }
        self.below(out)
    }

    /// A person posted a message, which the stream will repeat.
    pub(crate) fn posted(&mut self, content: &str) {
        self.typed.push_back(content.to_owned());
    }

    /// A message that was typed here could not be posted.
    pub(crate) fn refused(&mut self, content: &str) {
        self.typed.retain(|typed| typed != content);
    }

    /// A person pressed Ctrl-C, which the terminal shows as `^C`.
    pub(crate) fn interrupted(&mut self) {
        if !self.style.edited {
            self.line = Line::Text(Channel::Talk);
        }
    }

    /// Tells something that does not come from the agent.
    pub(crate) fn tell(&mut self, text: &str) -> Output {
        let mut out = Output::default();
        self.talk(&mut out, Paint::Dim, text);
        self.below(out)
    }

    /// Tells of a failure.
    pub(crate) fn complain(&mut self, text: &str) -> Output {
        let mut out = Output::default();
        self.talk(&mut out, Paint::Red, &format!("✗ {text}"));
        self.below(out)
    }

    /// Asks for a message, unless an answer is on its way or an editor asks.
    pub(crate) fn ask(&mut self) -> Output {
        let mut out = Output::default();
        let asks = self.style.interactive && !self.style.edited;
        if asks && self.line != Line::Prompt && !self.is_busy() {
            self.clear(&mut out);
            out.push(Channel::Talk, Paint::Bold, "> ");
            self.line = Line::Prompt;
        }
        out
    }

    /// Ends the line, so that whatever comes next begins one.
    pub(crate) fn leave(&mut self) -> Output {
        let mut out = Output::default();
        self.passing = None;
        self.clear(&mut out);
        self.below(out)
    }

    fn end_run(&mut self, out: &mut Output) {
        self.clear(out);
        self.running = false;
        self.passing = None;
        self.next_attempt = None;
        self.cells.clear();
        if self.style.interactive && !self.is_busy() {
            out.push(Channel::Talk, Paint::Plain, "\n");
        }
    }

    /// Adds to the message that is being written.
    fn say(&mut self, out: &mut Output, id: &str, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.settle(out, delta);
        self.passing = None;
        if self.line != Line::Text(Channel::Reply) {
            self.clear(out);
        }
        out.push(Channel::Reply, Paint::Plain, delta);
        self.line = if delta.ends_with('\n') { Line::Start } else { Line::Text(Channel::Reply) };
        match &mut self.message {
            Some((open, shown)) if open == id => shown.push_str(delta),
            message => *message = Some((id.to_owned(), delta.to_owned())),
        }
    }

    /// Adds to what the agent thinks. On a terminal it passes, since it may turn out to be the answer.
    fn think(&mut self, out: &mut Output, delta: &str) {
        if self.style.live {
            let thought = self.thought.get_or_insert_default();
            thought.push_str(delta);
            let rows = if self.style.thoughts { usize::MAX } else { GLIMPSE };
            self.passing = Some(Passing { paint: Paint::Dim, text: thought.clone(), rows });
        } else if self.style.thoughts {
            if self.line != Line::Text(Channel::Talk) {
                self.clear(out);
            }
            out.push(Channel::Talk, Paint::Dim, delta);
            self.line = if delta.ends_with('\n') { Line::Start } else { Line::Text(Channel::Talk) };
        }
    }

    /// A thought is complete. A terminal waits for what comes next.
    fn clear_thought(&mut self, out: &mut Output) {
        if self.style.thoughts && !self.style.live {
            self.clear(out);
        }
    }

    /// What the agent thought is over. What the answer repeats of it is not shown twice.
    fn settle(&mut self, out: &mut Output, answer: &str) {
        let Some(thought) = self.thought.take() else { return };
        let before = match answer.trim() {
            "" => thought.trim(),
            answer => thought.trim().strip_suffix(answer).unwrap_or(&thought).trim(),
        };
        self.passing = None;
        if self.style.thoughts && !before.is_empty() {
            self.talk(out, Paint::Dim, before);
        }
    }

    /// The same with what passes below it, and with the lines that were held back if they may be shown now.
    fn below(&mut self, mut out: Output) -> Output {
        if self.line != Line::Text(Channel::Reply) {
            for text in std::mem::take(&mut self.held) {
                self.talk(&mut out, Paint::Bold, &format!("> {text}"));
            }
        }
        let line = |text: &String| Passing { paint: Paint::Bold, text: format!("> {text}"), rows: 1 };
        let held = self.held.iter().map(line);
        out.passing = Some(self.passing.iter().cloned().chain(held).collect());
        out
    }

    /// The thread as it is: what is shown of the last message may be wrong.
    fn correct(&mut self, out: &mut Output, messages: &[Spoken]) {
        let Some((id, shown)) = self.message.take() else { return };
        let truth =
            messages.iter().find(|message| message.id == id).and_then(|message| message.content.as_str());
        match truth {
            None => self.talk(out, Paint::Dim, "(this answer broke off and is not kept)"),
            Some(truth) if truth == shown => {}
            Some(truth) => {
                self.talk(out, Paint::Dim, "(this answer broke off; it reads:)");
                out.push(Channel::Reply, Paint::Plain, truth);
                self.line = Line::Text(Channel::Reply);
                self.clear(out);
            }
        }
    }

    fn fact(&mut self, out: &mut Output, custom: &Custom, now: DateTime<Utc>) {
        match custom {
            Custom::Posted { message } => self.repeated(out, message),
            Custom::Attempt { .. } => {
                self.next_attempt = None;
                self.pass(THINKING);
            }
            Custom::Retry { attempt, of, retry_at, message } => {
                let next = NextAttempt { number: *attempt, of: *of, at: *retry_at };
                let told = next.told(now);
                if self.style.live {
                    self.talk(out, Paint::Red, &format!("✗ {}", one_line(message)));
                    self.pass(&told);
                } else {
                    self.talk(out, Paint::Red, &format!("✗ {}; {told}", one_line(message)));
                }
                self.next_attempt = Some(next);
            }
            Custom::HandedOver {} => self.pass("another worker takes over…"),
            Custom::Other => {}
        }
    }

    /// The stream tells of a message: one that was typed here is shown already.
    fn repeated(&mut self, out: &mut Output, message: &Posted) {
        match self.typed.iter().position(|typed| *typed == message.content) {
            Some(at) if !message.is_notice() => drop(self.typed.remove(at)),
            _ if message.is_notice() => {
                self.talk(out, Paint::Dim, &notice(&message.metadata, &message.content));
            }
            _ => self.talk(out, Paint::Dim, &format!("> {}", message.content)),
        }
        if self.running && self.passing.is_none() {
            self.pass(THINKING);
        }
    }
}
