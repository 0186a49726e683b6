//! Renders a conversation: events in, text out, no I/O.
//!
//! Messages stay on the screen. What may change (a status, the time until the next attempt, lines typed while an answer
//! is written) is written in transient lines below them, on terminals only.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};

use chrono::{DateTime, Utc};
use houston_domain::message::{Message, MessageType, Source};
use houston_domain::plan::{Checklist, LineStatus};
use houston_domain::shared_state::apply;
use houston_protocol::agui::{EntityId, Event, Fact, Outcome, PLAN_ACTIVITY, PostedMessage, SnapshotMessage};
use serde_json::Value;

use super::approvals::{ANSWER_ELSEWHERE, Asks};
use super::checklist::{self, all, head, is_over, line, part};
use super::notice::{notice, progress_line};
use super::output::{Channel, Output, Paint, Transient, one_line};

/// How the conversation is rendered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Whether the user is prompted for messages.
    pub(crate) interactive: bool,
    /// Whether an editor shows the prompt and the input line.
    pub(crate) edited: bool,
    /// Whether everything but replies goes to a terminal, whose last rows can be erased.
    pub(crate) live: bool,
    /// Whether that terminal shows colours.
    pub(crate) colour: bool,
    /// Whether the agent's reasoning is shown.
    pub(crate) thoughts: bool,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    style: Style,
    line: Line,
    running: bool,
    /// The id and the text shown so far of the message that is being written, or was written last in this run.
    message: Option<(EntityId, String)>,
    /// Titles of the open tool calls, by id.
    tool_calls: HashMap<EntityId, String>,
    next_attempt: Option<NextAttempt>,
    /// Whether the run waits for something from outside, such as the user's answer.
    waits: bool,
    /// Messages posted from here that the stream has not repeated yet.
    typed: VecDeque<String>,
    /// Lines typed while a message is written; they are shown after it.
    held: Vec<String>,
    /// The status line, or the reasoning, below everything else.
    transient: Option<Transient>,
    /// The agent's reasoning so far, until the next event says whether it is the answer.
    thought: Option<String>,
    plans: Plans,
    /// What is not shown yet.
    out: Output,
}

/// The next attempt of a run that failed.
#[derive(Debug)]
struct NextAttempt {
    number: i32,
    of: i32,
    at: DateTime<Utc>,
}

impl NextAttempt {
    fn countdown(&self, now: DateTime<Utc>) -> String {
        let seconds = ((self.at - now).num_milliseconds().max(0) + 999) / 1000;
        format!("retry {} of {} in {seconds} s", self.number, self.of)
    }
}

const THINKING: &str = "thinking…";
/// How many rows of reasoning a terminal shows while it arrives, unless all of it was asked for.
const PREVIEW_ROWS: usize = 6;

impl Screen {
    pub(crate) fn new(style: Style) -> Self {
        Self { style, ..Self::default() }
    }

    /// Whether an answer is expected.
    pub(crate) fn is_busy(&self) -> bool {
        self.running || !self.typed.is_empty()
    }

    /// Whether a countdown is shown, which [`Self::tick`] updates.
    pub(crate) fn is_counting(&self) -> bool {
        self.style.live && self.next_attempt.is_some()
    }

    /// Renders an event.
    pub(crate) fn event(&mut self, event: &Event<'_>, now: DateTime<Utc>) -> Output {
        match event {
            Event::RunStarted { .. } => {
                self.running = true;
                self.message = None;
                self.set_status(THINKING);
            }
            Event::TextMessageStart { message_id, .. } => {
                self.clear();
                self.message = Some((*message_id, String::new()));
            }
            Event::TextMessageContent { message_id, delta, .. } => self.append_reply(*message_id, delta),
            Event::TextMessageEnd { .. } => self.clear(),
            Event::ReasoningMessageStart { .. } => {
                self.end_reasoning("");
                self.set_status(THINKING);
            }
            Event::ReasoningMessageContent { delta, .. } => self.append_reasoning(delta),
            // A terminal keeps it until the next event.
            Event::ReasoningMessageEnd { .. } if self.style.thoughts && !self.style.live => self.clear(),
            Event::ToolCallStart { tool_call_id, tool_call_name, .. } => {
                self.end_reasoning("");
                self.start_tool_call(*tool_call_id, tool_call_name);
            }
            Event::ToolCallResult { tool_call_id, content, metadata, .. } => {
                let failed = metadata.as_ref().is_some_and(|metadata| metadata.houston.is_error);
                self.end_tool_call(*tool_call_id, failed.then_some(content));
            }
            Event::MessagesSnapshot { messages, .. } => self.apply_snapshot(messages),
            Event::Custom { fact, .. } => self.fact(fact, now),
            Event::RunFinished { outcome, .. } => {
                self.end_reasoning("");
                if *outcome == Outcome::Cancelled {
                    self.write_line(Paint::Dim, "cancelled");
                }
                self.end_run();
            }
            Event::RunError { message, code, metadata, .. } => {
                self.end_reasoning("");
                // Whoever uses the chat is a developer.
                let cause = metadata.as_ref().and_then(|metadata| metadata.houston.cause.as_ref());
                let cause = one_line(cause.unwrap_or(message));
                self.write_line(Paint::Red, &format!("✗ {cause} ({code})"));
                self.end_run();
            }
            Event::ActivitySnapshot { message_id, activity_type, content, .. }
                if activity_type == PLAN_ACTIVITY =>
            {
                self.plan(*message_id, content.clone().into_owned());
            }
            Event::ActivityDelta { message_id, patch, .. } => self.plan_delta(*message_id, patch),
            _ => {}
        }
        self.output()
    }

    /// Updates the countdown to the next attempt.
    pub(crate) fn tick(&mut self, now: DateTime<Utc>) -> Output {
        if let Some(next) = &self.next_attempt {
            let countdown = next.countdown(now);
            self.set_status(&countdown);
        }
        self.output()
    }

    /// The user ended a line. The editor's copy of it was erased: it is written again, at once or after the message
    /// that is being written.
    pub(crate) fn entered(&mut self, text: &str) -> Output {
        if !self.style.edited {
            self.line = Line::Start;
        } else if text.trim().is_empty() {
        } else if self.line == Line::Text(Channel::Reply) {
            self.held.push(text.to_owned());
        } else {
            self.write_line(Paint::Bold, &format!("> {text}"));
        }
        self.output()
    }

    /// A message was posted from here; the stream will repeat it.
    pub(crate) fn posted(&mut self, content: &str) {
        self.typed.push_back(content.to_owned());
    }

    /// A message that was typed here could not be posted.
    pub(crate) fn refused(&mut self, content: &str) {
        self.typed.retain(|typed| typed != content);
    }

    /// The user pressed Ctrl-C, which the terminal shows as `^C`.
    pub(crate) fn interrupted(&mut self) {
        if !self.style.edited {
            self.line = Line::Text(Channel::Info);
        }
    }

    /// Writes a line that does not come from the agent.
    pub(crate) fn info(&mut self, text: &str) -> Output {
        self.write_line(Paint::Dim, text);
        self.output()
    }

    /// Writes an error.
    pub(crate) fn error(&mut self, text: &str) -> Output {
        self.write_line(Paint::Red, &format!("✗ {text}"));
        self.output()
    }

    /// Writes the prompt, unless an answer is expected or an editor shows it.
    pub(crate) fn prompt(&mut self) -> Output {
        let asks = self.style.interactive && !self.style.edited;
        if asks && self.line != Line::Prompt && (self.waits || !self.is_busy()) {
            self.clear();
            self.out.push(Channel::Info, Paint::Bold, "> ");
            self.line = Line::Prompt;
        }
        std::mem::take(&mut self.out)
    }

    /// Ends the line, so that the next output begins a new one.
    pub(crate) fn leave(&mut self) -> Output {
        (self.transient, self.plans) = (None, Plans::default());
        self.clear();
        self.output()
    }

    fn end_run(&mut self) {
        self.clear();
        self.end_plans();
        self.running = false;
        self.waits = false;
        self.transient = None;
        self.next_attempt = None;
        self.tool_calls.clear();
        if self.style.interactive && !self.is_busy() {
            self.out.push(Channel::Info, Paint::Plain, "\n");
        }
    }

    /// Appends to the message that is being written.
    fn append_reply(&mut self, id: EntityId, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.end_reasoning(delta);
        self.transient = None;
        if self.line != Line::Text(Channel::Reply) {
            self.clear();
        }
        self.out.push(Channel::Reply, Paint::Plain, delta);
        self.line = if delta.ends_with('\n') { Line::Start } else { Line::Text(Channel::Reply) };
        match &mut self.message {
            Some((open, shown)) if *open == id => shown.push_str(delta),
            message => *message = Some((id, delta.to_owned())),
        }
    }

    /// Appends to the reasoning. On a terminal it is transient, since it may turn out to be the answer.
    fn append_reasoning(&mut self, delta: &str) {
        if self.style.live {
            let thought = self.thought.get_or_insert_default();
            thought.push_str(delta);
            let rows = if self.style.thoughts { usize::MAX } else { PREVIEW_ROWS };
            self.transient = Some(Transient { paint: Paint::Dim, text: thought.clone(), rows });
        } else if self.style.thoughts {
            if self.line != Line::Text(Channel::Info) {
                self.clear();
            }
            self.out.push(Channel::Info, Paint::Dim, delta);
            self.line = if delta.ends_with('\n') { Line::Start } else { Line::Text(Channel::Info) };
        }
    }

    /// Ends the reasoning. A part that the answer repeats is not shown twice.
    fn end_reasoning(&mut self, answer: &str) {
        let Some(thought) = self.thought.take() else { return };
        let before = match answer.trim() {
            "" => thought.trim(),
            answer => thought.trim().strip_suffix(answer).unwrap_or(&thought).trim(),
        };
        self.transient = None;
        if self.style.thoughts && !before.is_empty() {
            self.write_line(Paint::Dim, before);
        }
    }

    /// What is not shown yet, with the transient lines, and the lines that were held back if they can be written now.
    fn output(&mut self) -> Output {
        if self.line != Line::Text(Channel::Reply) {
            for text in std::mem::take(&mut self.held) {
                self.write_line(Paint::Bold, &format!("> {text}"));
            }
        }
        let line = |text: &String| Transient { paint: Paint::Bold, text: format!("> {text}"), rows: 1 };
        let held = self.held.iter().map(line);
        let plans = self.plans.transients().filter(|_| self.style.live);
        let transient = Some(plans.chain(self.transient.iter().cloned()).chain(held).collect());
        Output { transient, ..std::mem::take(&mut self.out) }
    }

    /// Corrects the last message if it differs from the snapshot of the thread.
    fn apply_snapshot(&mut self, messages: &[SnapshotMessage]) {
        let Some((id, shown)) = self.message.take() else { return };
        let truth = messages.iter().find(|message| message.id == id).and_then(SnapshotMessage::as_text);
        match truth {
            None => self.write_line(Paint::Dim, "(this answer was cut off and is discarded)"),
            Some(truth) if truth == shown => {}
            Some(truth) => {
                self.write_line(Paint::Dim, "(this answer was cut off; it reads:)");
                self.out.push(Channel::Reply, Paint::Plain, truth);
                self.line = Line::Text(Channel::Reply);
                self.clear();
            }
        }
    }

    fn fact(&mut self, fact: &Fact<'_>, now: DateTime<Utc>) {
        match fact {
            Fact::MessagePosted { message } => self.message_posted(message),
            Fact::AttemptStarted { .. } => {
                self.next_attempt = None;
                self.waits = false;
                self.set_status(THINKING);
            }
            Fact::RetryScheduled { attempt, of, retry_at, cause, .. } => {
                let next = NextAttempt { number: *attempt, of: *of, at: retry_at.0 };
                let countdown = next.countdown(now);
                if self.style.live {
                    self.write_line(Paint::Red, &format!("✗ {}", one_line(cause)));
                    self.set_status(&countdown);
                } else {
                    self.write_line(Paint::Red, &format!("✗ {}; {countdown}", one_line(cause)));
                }
                self.next_attempt = Some(next);
            }
            Fact::RateLimited { .. } | Fact::RunWaiting { .. } => {
                self.set_status("waiting for an answer or a time…");
                self.waits = true;
            }
            Fact::QuestionAsked { .. } => self.question_asked(fact),
            Fact::ToolProgress { .. } => self.set_status(&progress_line(fact)),
            Fact::HandedOver { .. } => self.set_status("another worker takes over…"),
            _ => {}
        }
    }

    /// The stream repeats a message: one that was posted from here is on the screen already.
    fn message_posted(&mut self, message: &PostedMessage<'_>) {
        if message.source == Source::System {
            let metadata = message.metadata.as_deref().unwrap_or(&Value::Null);
            self.write_line(Paint::Dim, &notice(metadata, &message.content));
        } else if let Some(at) = self.typed.iter().position(|typed| *typed == message.content) {
            self.typed.remove(at);
        } else {
            self.write_line(Paint::Dim, &format!("> {}", message.content));
        }
        if self.running && self.transient.is_none() {
            self.set_status(THINKING);
        }
    }
}

/// What the current line contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Line {
    /// Nothing.
    #[default]
    Start,
    /// Text of this channel.
    Text(Channel),
    /// The title of an open tool call.
    ToolCall(EntityId),
    /// The prompt, and what the user has typed after it.
    Prompt,
}

impl Screen {
    /// Moves to the start of a line.
    fn clear(&mut self) {
        match &self.line {
            Line::Start => {}
            Line::Text(channel) => self.out.push(*channel, Paint::Plain, "\n"),
            Line::ToolCall(_) | Line::Prompt => self.out.push(Channel::Info, Paint::Plain, "\n"),
        }
        self.line = Line::Start;
    }

    /// Writes a line that stays.
    fn write_line(&mut self, paint: Paint, text: &str) {
        self.clear();
        self.transient = None;
        self.out.push(Channel::Info, paint, text);
        self.out.push(Channel::Info, Paint::Plain, "\n");
    }

    /// Sets the status line below everything else, on a terminal.
    fn set_status(&mut self, text: &str) {
        if self.style.live {
            self.transient = Some(Transient { paint: Paint::Dim, text: text.to_owned(), rows: 1 });
        }
    }

    /// Writes the title of a tool call that begins.
    fn start_tool_call(&mut self, id: EntityId, name: &str) {
        self.clear();
        self.transient = None;
        let title = title(name);
        self.out.push(Channel::Info, Paint::Dim, &title);
        self.tool_calls.insert(id, title);
        self.line = Line::ToolCall(id);
    }

    /// Writes the result of a tool call: done, or the first line of the error.
    fn end_tool_call(&mut self, id: EntityId, failed: Option<&str>) {
        let title = self.tool_calls.remove(&id).unwrap_or_else(|| "⚙ …".to_owned());
        if !matches!(&self.line, Line::ToolCall(open) if *open == id) {
            self.clear();
            self.out.push(Channel::Info, Paint::Dim, &title);
        }
        match failed {
            None => self.out.push(Channel::Info, Paint::Dim, " done"),
            Some(why) => self.out.push(Channel::Info, Paint::Red, &format!(" failed: {}", one_line(why))),
        }
        self.out.push(Channel::Info, Paint::Plain, "\n");
        self.line = Line::Start;
    }
}

/// `create_note` → `⚙ Create note …`, as messages of the type `tool` are titled.
fn title(name: &str) -> String {
    let words = one_line(&name.replace('_', " "));
    let mut chars = words.chars();
    let title: String = chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
    format!("⚙ {title} …")
}

/// The plans that are listed.
#[derive(Debug, Default)]
struct Plans {
    open: Vec<(EntityId, Value)>,
    /// Ids of the questions of their steps that were seen.
    asked: HashSet<String>,
    /// Plans with questions that were not seen before.
    asking: Vec<String>,
}

impl Plans {
    /// The lists below everything else.
    fn transients(&self) -> impl Iterator<Item = Transient> {
        let lists = self.open.iter().filter_map(|(_, content)| checklist::of(content));
        lists.map(|list| {
            let lines = part(&list);
            Transient { paint: Paint::Dim, rows: lines.len(), text: lines.join("\n") }
        })
    }

    fn take_note(&mut self, list: &Checklist) {
        let mut is_new = false;
        for question in list.steps.iter().filter_map(|line| line.question_id.clone()) {
            is_new |= self.asked.insert(question);
        }
        self.asking.extend(list.plan_id.clone().filter(|_| is_new));
    }
}

impl Screen {
    /// Ids of the plans that ask something new.
    pub(crate) fn take_asking(&mut self) -> Vec<String> {
        std::mem::take(&mut self.plans.asking)
    }

    fn plan_delta(&mut self, message: EntityId, patch: &[Value]) {
        let open = self.plans.open.iter().find(|(id, _)| *id == message);
        if let Some((id, mut content)) = open.cloned() {
            apply(&mut content, patch);
            self.plan(id, content);
        }
    }

    fn plan(&mut self, id: EntityId, content: Value) {
        let Some(list) = checklist::of(&content) else { return };
        self.plans.take_note(&list);
        let at = self.plans.open.iter().position(|(open, _)| *open == id);
        let before = at.and_then(|at| checklist::of(&self.plans.open.swap_remove(at).1));
        let lines = match (self.style.live, is_over(&list)) {
            (true, true) => all(&list),
            // It is below everything else.
            (true, false) => Vec::new(),
            (false, _) => changes(before.as_ref(), &list),
        };
        for text in lines {
            self.write_line(Paint::Dim, &text);
        }
        if !is_over(&list) {
            self.plans.open.push((id, content));
        }
    }

    /// The run ends: plans that go on are no longer reported of.
    fn end_plans(&mut self) {
        let open = std::mem::take(&mut self.plans.open);
        for list in open.iter().filter_map(|(_, content)| checklist::of(content)) {
            let id = list.plan_id.as_deref().unwrap_or("the plan");
            self.write_line(Paint::Dim, &format!("{}; it goes on: houston plan show {id}", head(&list)));
        }
    }
}

/// The lines of what is new.
fn changes(before: Option<&Checklist>, list: &Checklist) -> Vec<String> {
    let was = |id: &str| {
        let line = before.and_then(|before| before.steps.iter().find(|line| line.id == id));
        line.map_or(LineStatus::Pending, |line| line.status)
    };
    let changed = list.steps.iter().filter(|line| was(&line.id) != line.status).map(line);
    match before {
        None => [head(list)].into_iter().chain(changed).collect(),
        Some(before) => {
            let ended = (before.status != list.status && is_over(list)).then(|| head(list));
            changed.chain(ended).collect()
        }
    }
}

impl Screen {
    /// Shows a question that was asked.
    fn question_asked(&mut self, fact: &Fact<'_>) {
        let Fact::QuestionAsked { question_id, text, approval, .. } = fact else { return };
        let Some(asks) = Asks::of(fact) else {
            let line = format!("? {} (answer with POST /v1/questions/{question_id}/answer)", one_line(text));
            return self.write_line(Paint::Bold, &line);
        };
        self.write_line(Paint::Bold, &format!("? {}", asks.text(text)));
        if let Some(Value::Object(arguments)) = approval.as_deref().map(|call| &call.input) {
            for (name, value) in arguments {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.write_line(Paint::Plain, &format!("  {name}: {}", one_line(&value)));
            }
        }
        for line in approval.as_deref().and_then(|call| call.preview.as_deref()).unwrap_or_default().lines() {
            self.write_line(Paint::Plain, &format!("  {line}"));
        }
        let how = if self.style.interactive { asks.choices() } else { ANSWER_ELSEWHERE.to_owned() };
        self.write_line(Paint::Dim, &format!("  {how}"));
    }
}

impl Screen {
    /// Renders messages, given oldest first.
    pub(crate) fn thread(&mut self, messages: &[Message]) -> Output {
        if messages.is_empty() {
            self.write_line(Paint::Dim, "there are no messages yet");
        }
        for message in messages {
            self.message(message);
        }
        self.output()
    }

    fn message(&mut self, message: &Message) {
        match (message.source, message.message_type) {
            (_, MessageType::Tool) => {
                let state = match message.metadata["status"].as_str().unwrap_or_default() {
                    "started" => "",
                    status => status,
                };
                self.write_line(Paint::Dim, format!("{} {state}", title(&message.content)).trim_end());
            }
            (Source::User, _) => self.write_line(Paint::Bold, &format!("> {}", message.content)),
            (Source::System, _) => self.write_line(Paint::Dim, &notice(&message.metadata, &message.content)),
            (Source::Error, _) => self.write_line(Paint::Red, &format!("✗ {}", one_line(&message.content))),
            (Source::Agent, _) => {
                self.clear();
                self.out.push(Channel::Reply, Paint::Plain, message.content.trim_end());
                self.out.push(Channel::Reply, Paint::Plain, "\n");
            }
        }
    }
}
