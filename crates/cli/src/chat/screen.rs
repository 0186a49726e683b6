//! What a conversation looks like: events in, text out, without I/O.
//!
//! There is no control over the line a person types in: the terminal echoes it where the cursor stands. So the
//! screen only ever goes forward, except over lines it wrote as passing ones.

mod line;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::{BTreeMap, VecDeque};

use chrono::{DateTime, Utc};

use self::line::{Line, UP_AND_ERASE};
use super::event::{Custom, Event, Spoken};
use super::output::{Channel, Output, harmless, one_line};

/// How it looks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Ask for messages.
    pub(crate) prompt: bool,
    /// Where the talk goes is a terminal, whose last line can be erased.
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
                self.pass(&mut out, THINKING);
            }
            Event::TextMessageStart { message_id } => {
                self.clear(&mut out);
                self.message = Some((message_id.clone(), String::new()));
            }
            Event::TextMessageContent { message_id, delta } => self.say(&mut out, message_id, delta),
            Event::TextMessageEnd { .. } => self.clear(&mut out),
            Event::ReasoningMessageStart { .. } => self.pass(&mut out, THINKING),
            Event::ReasoningMessageContent { delta, .. } if self.style.thoughts => {
                self.think(&mut out, delta)
            }
            Event::ReasoningMessageEnd { .. } if self.style.thoughts => self.clear(&mut out),
            Event::ToolCallStart { tool_call_id, tool_call_name } => {
                self.begin_cell(&mut out, tool_call_id, tool_call_name);
            }
            Event::ToolCallResult { tool_call_id, content, metadata } => {
                let failed = metadata.houston.is_error.then_some(content.as_str());
                self.end_cell(&mut out, tool_call_id, failed);
            }
            Event::MessagesSnapshot { messages } => self.correct(&mut out, messages),
            Event::Custom(custom) => self.fact(&mut out, custom, now),
            Event::RunFinished { outcome, .. } => {
                if outcome.as_ref().is_some_and(|outcome| outcome.name == "cancelled") {
                    self.talk(&mut out, Paint::Dim, "cancelled");
                }
                self.end_run(&mut out);
            }
            Event::RunError { message, code } => {
                let code = code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
                self.talk(&mut out, Paint::Red, &format!("✗ {}{code}", one_line(message)));
                self.end_run(&mut out);
            }
            Event::ReasoningMessageContent { .. } | Event::ReasoningMessageEnd { .. } | Event::Other => {}
        }
        out
    }

    /// Counts down to the next attempt.
    pub(crate) fn tick(&mut self, now: DateTime<Utc>) -> Output {
        let mut out = Output::default();
        let free = self.style.live && matches!(self.line, Line::Passing | Line::Start);
        if let Some(next) = self.next_attempt.as_ref().filter(|_| free) {
            let told = next.told(now);
            self.pass(&mut out, &told);
        }
        out
    }

    /// A person ended a line: the cursor stands below it. A line that stands alone, or after a passing text, is
    /// written again as the prompt would have had it.
    pub(crate) fn entered(&mut self, text: &str) -> Output {
        const SURELY_ONE_ROW: usize = 60;
        let mut out = Output::default();
        let alone = matches!(self.line, Line::Start | Line::Passing);
        if self.style.live && alone && !text.is_empty() && text.chars().count() <= SURELY_ONE_ROW {
            out.push(Channel::Talk, UP_AND_ERASE);
            out.push(Channel::Talk, &self.painted(Paint::Bold, "> "));
            out.push(Channel::Talk, &harmless(text));
            out.push(Channel::Talk, "\n");
        }
        self.line = Line::Start;
        out
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
        self.line = Line::Text(Channel::Talk);
    }

    /// Tells something that does not come from the agent.
    pub(crate) fn tell(&mut self, text: &str) -> Output {
        let mut out = Output::default();
        self.talk(&mut out, Paint::Dim, text);
        out
    }

    /// Tells of a failure.
    pub(crate) fn complain(&mut self, text: &str) -> Output {
        let mut out = Output::default();
        self.talk(&mut out, Paint::Red, &format!("✗ {text}"));
        out
    }

    /// Asks for a message, unless an answer is on its way.
    pub(crate) fn ask(&mut self) -> Output {
        let mut out = Output::default();
        if self.style.prompt && self.line != Line::Prompt && !self.is_busy() {
            self.clear(&mut out);
            out.push(Channel::Talk, &self.painted(Paint::Bold, "> "));
            self.line = Line::Prompt;
        }
        out
    }

    /// Ends the line, so that whatever comes next begins one.
    pub(crate) fn leave(&mut self) -> Output {
        let mut out = Output::default();
        if self.line == Line::Prompt {
            self.line = Line::Text(Channel::Talk);
        }
        self.clear(&mut out);
        out
    }

    fn end_run(&mut self, out: &mut Output) {
        self.clear(out);
        self.running = false;
        self.next_attempt = None;
        self.cells.clear();
        if self.style.prompt && !self.is_busy() {
            out.push(Channel::Talk, "\n");
        }
    }

    /// Adds to the message that is being written.
    fn say(&mut self, out: &mut Output, id: &str, delta: &str) {
        if delta.is_empty() {
            return;
        }
        if matches!(self.line, Line::Passing | Line::Prompt | Line::Cell(_)) {
            self.clear(out);
        }
        out.push(Channel::Reply, &harmless(delta));
        self.line = if delta.ends_with('\n') { Line::Start } else { Line::Text(Channel::Reply) };
        match &mut self.message {
            Some((open, shown)) if open == id => shown.push_str(delta),
            message => *message = Some((id.to_owned(), delta.to_owned())),
        }
    }

    fn think(&mut self, out: &mut Output, delta: &str) {
        if matches!(self.line, Line::Passing | Line::Prompt | Line::Cell(_)) {
            self.clear(out);
        }
        out.push(Channel::Talk, &self.painted(Paint::Dim, &harmless(delta)));
        self.line = if delta.ends_with('\n') { Line::Start } else { Line::Text(Channel::Talk) };
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
                out.push(Channel::Reply, &harmless(truth));
                self.line = Line::Text(Channel::Reply);
                self.clear(out);
            }
        }
    }

    fn fact(&mut self, out: &mut Output, custom: &Custom, now: DateTime<Utc>) {
        match custom {
            Custom::Posted { message } => {
                match self.typed.iter().position(|typed| *typed == message.content) {
                    Some(at) => drop(self.typed.remove(at)),
                    None => self.talk(out, Paint::Dim, &format!("> {}", harmless(&message.content))),
                }
                if self.line == Line::Start && self.running {
                    self.pass(out, THINKING);
                }
            }
            Custom::Attempt { .. } => {
                self.next_attempt = None;
                self.pass(out, THINKING);
            }
            Custom::Retry { attempt, of, retry_at, message } => {
                let next = NextAttempt { number: *attempt, of: *of, at: *retry_at };
                let told = next.told(now);
                if self.style.live {
                    self.talk(out, Paint::Red, &format!("✗ {}", one_line(message)));
                    self.pass(out, &told);
                } else {
                    self.talk(out, Paint::Red, &format!("✗ {}; {told}", one_line(message)));
                }
                self.next_attempt = Some(next);
            }
            Custom::HandedOver {} => self.pass(out, "another worker takes over…"),
            Custom::Other => {}
        }
    }
}

/// How a text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paint {
    Bold,
    Dim,
    Red,
}
