//! Spans of time, from the lines of a trace.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::event::Event;
use houston_domain::history::Block;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::ToolResponse;
use houston_domain::trace::Line;
use serde_json::Value;

use crate::show::{self, Fact, fact};

/// A stretch of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Span {
    pub(super) depth: u8,
    /// What it is: the name of its colour in the stylesheet.
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) start: DateTime<Utc>,
    /// `None`: it goes on.
    pub(super) end: Option<DateTime<Utc>>,
    /// Whether it has no length: something happened.
    pub(super) is_moment: bool,
    pub(super) bad: bool,
    pub(super) facts: Vec<Fact>,
    /// What a model wrote, or a tool was given.
    pub(super) texts: Vec<Fact>,
    /// When what it has texts of was committed.
    pub(super) texts_at: Option<DateTime<Utc>>,
    /// The number of its answer, if it is a model call: the first of the run is 1.
    pub(super) answer: Option<usize>,
}

/// The spans of a run, in the order in which they began.
pub(super) fn of(lines: &[Line], is_open: bool) -> Vec<Span> {
    let mut reading = Reading::default();
    for line in in_order(lines) {
        reading.line(line);
    }
    if is_open {
        reading.expect_answer();
    } else {
        let last = lines.iter().filter_map(Line::at).max();
        for span in &mut reading.spans {
            span.end = span.end.or(last);
        }
    }
    reading.spans
}

/// The lines, with the end of an iteration or a run after the answer that it follows from: both are committed together, and the
/// entry of the answer may have the later time.
fn in_order(lines: &[Line]) -> Vec<&Line> {
    let is_end = |line: &Line| matches!(line, Line::Event { event, .. } if matches!(**event, Event::RunFinished { .. }));
    let (mut ordered, mut answers) = (Vec::with_capacity(lines.len()), 0);
    // Ends of iterations that wait for their answer, by the number of the iteration.
    let mut held: Vec<(u32, &Line)> = Vec::new();
    for line in lines.iter().filter(|line| !is_end(line)) {
        // Up to which iteration nothing more comes.
        let complete = match line {
            Line::Answer { .. } => {
                answers += 1;
                answers - 1
            }
            Line::Tool { .. } | Line::Results { .. } => 0,
            Line::Event { event, .. } => match **event {
                Event::StepFinished { iteration, .. } if iteration > answers => {
                    held.push((iteration, line));
                    continue;
                }
                Event::AttemptStarted { .. } | Event::RetryScheduled { .. } => u32::MAX,
                _ => answers,
            },
            _ => answers,
        };
        ordered.extend(held.extract_if(.., |(iteration, _)| *iteration <= complete).map(|(_, line)| line));
        ordered.push(line);
    }
    ordered.extend(held.into_iter().map(|(_, line)| line));
    ordered.extend(lines.iter().filter(|line| is_end(line)));
    ordered
}

#[derive(Default)]
struct Reading {
    spans: Vec<Span>,
    /// Open spans, by their index.
    wait: Option<usize>,
    attempt: Option<usize>,
    iteration: Option<usize>,
    /// The iteration that begins with the next thing that happens, and since when.
    next: Option<(u32, DateTime<Utc>)>,
    /// When the model was last given something to answer.
    asked: Option<DateTime<Utc>>,
    /// Calls without a result: the tool, and since when.
    called: HashMap<String, (String, DateTime<Utc>)>,
    steps: HashMap<String, usize>,
    answers: usize,
}

impl Reading {
    fn line(&mut self, line: &Line) {
        match line {
            Line::Event { at, event, .. } => self.event(*at, event),
            Line::Answer { at, content, stop, usage, model } => {
                self.iterate();
                let start = self.asked.unwrap_or(*at).min(*at);
                let index = self.begin(2, "model", model.as_deref().unwrap_or("Model call"), start);
                let stop = serde_json::to_value(stop).ok();
                let span = &mut self.spans[index];
                (span.end, span.texts_at) = (Some(*at), Some(*at));
                span.facts = vec![
                    fact("Input", show::count(usage.input_tokens)),
                    fact("From cache", show::count(usage.cache_read_tokens)),
                    fact("Output", show::count(usage.output_tokens)),
                    fact("Reasoning", show::count(usage.reasoning_tokens)),
                    fact("Cost", show::dollars(usage.cost)),
                    fact("Stopped", stop.as_ref().and_then(Value::as_str).unwrap_or_default()),
                ];
                span.texts = content.iter().filter_map(text_of).collect();
                self.answers += 1;
                span.answer = Some(self.answers);
                self.asked = Some(*at);
            }
            Line::Tool { at, call_id, name, input, response, ms } => {
                let called = self.called.remove(call_id).map(|(_, at)| at);
                let took = ms.map(|ms| *at - TimeDelta::milliseconds(i64::try_from(ms).unwrap_or(i64::MAX)));
                let start = took.or(called).or(self.asked).unwrap_or(*at).min(*at);
                self.iterate();
                let index = self.begin(2, "tool", name, start);
                let span = &mut self.spans[index];
                (span.end, span.texts_at) = (Some(*at), Some(*at));
                span.facts.push(fact("Call", call_id.as_str()));
                if let ToolResponse::Failure { code, .. } = response {
                    (span.kind, span.bad) = ("error", true);
                    span.facts.push(fact("Failed", code.as_str()));
                }
                let input = serde_json::to_string_pretty(input).unwrap_or_default();
                span.texts = vec![fact("Arguments", input), fact("Result", response.text())];
            }
            Line::Results { at, .. } => self.asked = Some(*at),
            Line::Compressed { at, summary, remaining } => {
                let name = format!("History compressed, {remaining} entries stay");
                let texts = vec![fact("Summary", summary.as_str())];
                self.moment(*at, "iteration", name, texts);
            }
            Line::Before(_) | Line::Message { .. } | Line::Plan(_) | Line::Step(_) | Line::Advance(_) => {}
        }
    }

    fn event(&mut self, at: DateTime<Utc>, event: &Event) {
        match event {
            Event::RunQueued {} => self.wait = Some(self.begin(0, "queue", "Queued", at)),
            Event::AttemptStarted { attempt, iteration, takeover, resumed, .. } => {
                self.end_all(at);
                let how = match (takeover, resumed) {
                    (true, _) => ", taken over",
                    (_, true) => ", resumed",
                    _ => "",
                };
                self.attempt = Some(self.begin(0, "attempt", format!("Attempt {attempt}{how}"), at));
                self.next = Some((*iteration, at));
                self.asked = Some(at);
            }
            Event::StepFinished { iteration, .. } => {
                self.iterate();
                self.end(self.iteration, at);
                (self.iteration, self.next, self.asked) = (None, Some((iteration + 1, at)), Some(at));
            }
            Event::ToolCalled { call_id, name, .. } => {
                self.called.insert(call_id.clone(), (name.clone(), at));
            }
            Event::RetryScheduled { attempt, of, retry_at, code, message, .. } => {
                self.fail(at, code, Some(message));
                self.end_all(at);
                let wait = self.begin(0, "wait", format!("Retry {attempt} of {of}"), at);
                self.spans[wait].facts.push(fact("Due", retry_at.format("%H:%M:%S%.3f UTC").to_string()));
                self.wait = Some(wait);
            }
            Event::RateLimited { .. } => self.pause(at, "The user's tokens are used up"),
            Event::RunWaiting { .. } => self.pause(at, "Waiting"),
            Event::HandedOver { .. } => self.pause(at, "Handed over to another worker"),
            Event::RunFinished { status, code, message, .. } => {
                if matches!(status, RunStatus::Failed | RunStatus::DeadLettered) {
                    self.fail(at, code.as_deref().unwrap_or(status.as_str()), message.as_deref());
                }
                self.end_all(at);
            }
            other => self.detail(at, other),
        }
    }

    /// What happens within an iteration.
    fn detail(&mut self, at: DateTime<Utc>, event: &Event) {
        match event {
            Event::ModelFallback { from, to, code, message } => {
                let texts = vec![fact("Error", message.as_str())];
                self.moment(at, "error", format!("{from} failed ({code}), {to} was asked"), texts);
            }
            Event::QuestionAsked(question) => {
                self.moment(at, "wait", format!("Asked: {}", show::line(&question.text, 120)), Vec::new());
            }
            Event::TeamRouted { agent_name, reason, .. } => {
                let texts = vec![fact("Reason", reason.as_str())];
                self.moment(at, "iteration", format!("The team picked {agent_name}"), texts);
            }
            Event::TaskStarted { title, .. } => {
                self.moment(at, "tool", format!("Task began: {}", show::line(title, 100)), Vec::new());
            }
            Event::TaskEnded { title, status, .. } => {
                let name = format!("Task ended ({}): {}", status.as_str(), show::line(title, 100));
                self.moment(at, "tool", name, Vec::new());
            }
            Event::PlanStepStarted { path, title, step, attempt, .. } => {
                let index = self.begin(1, "tool", format!("{path} {}", show::line(title, 80)), at);
                let facts = [fact("Step", step.clone()), fact("Attempt", attempt.to_string())];
                self.spans[index].facts.extend(facts);
                self.steps.insert(path.clone(), index);
            }
            Event::PlanStepFinished { path, .. } => {
                let index = self.steps.remove(path);
                self.end(index, at);
            }
            Event::PlanStepFailed { path, code, message, .. } => {
                let index = self.steps.remove(path);
                self.end(index, at);
                if let Some(span) = index.and_then(|index| self.spans.get_mut(index)) {
                    (span.kind, span.bad) = ("error", true);
                    span.facts.push(fact("Code", code.clone()));
                    span.facts.push(fact("Error", show::line(message, 400)));
                }
            }
            _ => {}
        }
    }

    /// What an open run does now: its tools run, or a model is asked, of which nothing is stored before its answer.
    fn expect_answer(&mut self) {
        if self.attempt.is_none() {
            return;
        }
        self.iterate();
        let mut running: Vec<_> = self.called.drain().map(|(_, running)| running).collect();
        running.sort_by_key(|(_, at)| *at);
        if let (true, Some(asked)) = (running.is_empty(), self.asked) {
            self.begin(2, "model", "Model call", asked);
        }
        for (name, at) in running {
            self.begin(2, "tool", name, at);
        }
    }

    fn begin(&mut self, depth: u8, kind: &'static str, name: impl Into<String>, at: DateTime<Utc>) -> usize {
        self.spans.push(Span { depth, kind, name: name.into(), start: at, ..Span::default() });
        self.spans.len() - 1
    }

    fn moment(&mut self, at: DateTime<Utc>, kind: &'static str, name: String, texts: Vec<Fact>) {
        if self.attempt.is_some() {
            self.iterate();
        }
        let depth = if self.iteration.is_some() { 2 } else { 0 };
        let index = self.begin(depth, kind, name, at);
        let span = &mut self.spans[index];
        (span.end, span.is_moment, span.texts, span.texts_at) = (Some(at), true, texts, Some(at));
    }

    /// Begins the iteration that is due, if none is open.
    fn iterate(&mut self) {
        if let (None, Some((number, at))) = (self.iteration, self.next.take()) {
            self.iteration = Some(self.begin(1, "iteration", format!("Iteration {number}"), at));
        }
    }

    /// What the model was asked last failed.
    fn fail(&mut self, at: DateTime<Utc>, code: &str, message: Option<&str>) {
        if self.attempt.is_some() {
            self.iterate();
        }
        let start = self.asked.filter(|_| self.attempt.is_some()).unwrap_or(at).min(at);
        let depth = if self.iteration.is_some() { 2 } else { 0 };
        let index = self.begin(depth, "error", format!("Failed: {code}"), start);
        let span = &mut self.spans[index];
        (span.end, span.bad) = (Some(at), true);
        span.facts.extend(message.map(|message| fact("Error", show::line(message, 400))));
        for open in [self.attempt, self.iteration].into_iter().flatten() {
            self.spans[open].bad = true;
        }
    }

    /// No worker holds the run from now on.
    fn pause(&mut self, at: DateTime<Utc>, name: &str) {
        self.end_all(at);
        self.wait = Some(self.begin(0, "wait", name, at));
    }

    fn end(&mut self, index: Option<usize>, at: DateTime<Utc>) {
        if let Some(span) = index.and_then(|index| self.spans.get_mut(index)) {
            span.end = Some(at);
        }
    }

    fn end_all(&mut self, at: DateTime<Utc>) {
        for open in [self.wait.take(), self.attempt.take(), self.iteration.take()] {
            self.end(open, at);
        }
        (self.next, self.asked) = (None, None);
        self.called.clear();
    }
}

fn text_of(block: &Block) -> Option<Fact> {
    match block {
        Block::Text { text, .. } => Some(fact("Text", text.as_str())),
        Block::Thinking { text, .. } if !text.is_empty() => Some(fact("Reasoning", text.as_str())),
        Block::ToolUse { name, input, .. } => {
            let input = serde_json::to_string_pretty(input).unwrap_or_default();
            Some(fact("Tool call", format!("{name} {input}")))
        }
        _ => None,
    }
}
