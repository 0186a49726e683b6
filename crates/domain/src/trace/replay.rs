//! Replaying a trace: [`AgentRun`] is driven with the recorded answers, results and times, and its entries and its end are
//! compared with those of the record.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use super::checkpoint::Past;
use super::{Line, Trace, plan};
use crate::agent::{AgentRun, Next};
use crate::event::Event;
use crate::history::{Block, Entry};
use crate::id::QuestionId;
use crate::model::{ModelAnswer, StopReason};
use crate::overseer::{Signal, note};
use crate::question::pause::{self, PauseAnswer};
use crate::run::RunStatus;
use crate::tool_call::ToolResponse;

/// Where a replay differs from the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The line of the trace, from 1.
    pub line: usize,
    /// The iteration, from 1.
    pub iteration: u32,
    /// What differs: `next`, `entry`, `event`, `end`; of a plan `plan`, `step`, `advance`, `end`. `size`: the trace takes too
    /// long to be replayed.
    pub what: &'static str,
    /// What was recorded.
    pub recorded: Value,
    /// What the replay came to.
    pub replayed: Value,
}

/// A replay without a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Replayed {
    /// Model calls.
    pub iterations: u32,
    /// Entries of the run that were compared.
    pub entries: usize,
    /// Events that were compared.
    pub events: usize,
    /// Outcomes of steps that the state machine of a plan was given.
    pub steps: usize,
    /// Answers of that state machine that were compared.
    pub advances: usize,
    /// How the run ended; `None`: it is open.
    pub status: Option<RunStatus>,
}

/// The most entries that are copied: an attempt that takes a run over copies its history.
const MAX_COPIED: usize = 20_000_000;

/// Replays a trace.
///
/// # Errors
/// The first [`Difference`].
pub fn replay(trace: &Trace) -> Result<Replayed, Box<Difference>> {
    replay_from(trace, None)
}

/// Replays a trace from the entry after this position of the history on, as a worker that takes the run over there. `None`:
/// all of it.
///
/// # Errors
/// The first [`Difference`].
pub fn replay_from(trace: &Trace, position: Option<i64>) -> Result<Replayed, Box<Difference>> {
    if trace.header.driver.as_deref() == Some(plan::DRIVER) {
        return plan::replay(trace);
    }
    let mut replay = Replay::of(trace);
    replay.taken = position.unwrap_or_default();
    let mut end = None;
    for (index, line) in trace.lines.iter().enumerate() {
        replay.line = index + 2;
        match line {
            Line::Event { at, event, .. } => match &**event {
                // It is committed with the last entry, so it comes last whatever their order is.
                Event::RunFinished { status, .. } => end = Some((replay.line, *at, *status)),
                event => replay.event(*at, event)?,
            },
            line => replay.entry(line)?,
        }
    }
    if position.is_some() {
        // Nothing may be left to replay.
        replay.run();
    }
    replay.check_steps()?;
    let ends_with_taken_entry = position.is_some() && replay.done.entries == 0;
    if let Some((line, at, status)) = end.filter(|_| !ends_with_taken_entry) {
        replay.line = line;
        replay.end(at, status)?;
    }
    Ok(Replayed { status: end.map(|(_, _, status)| status), ..replay.done })
}

struct Replay<'t> {
    trace: &'t Trace,
    run: Option<AgentRun>,
    past: Past,
    /// Pauses that were asked about, and where counts start anew.
    pauses: Vec<(QuestionId, Signal, u64)>,
    anew: Vec<(Signal, u64)>,
    responses: Vec<(String, ToolResponse)>,
    started: DateTime<Utc>,
    now: DateTime<Utc>,
    line: usize,
    /// The iterations of which steps end: as the events say, and as the entries do.
    steps: Vec<(usize, u32)>,
    closed: Option<u32>,
    followed: Vec<u32>,
    /// Entries up to this position are taken as they are.
    taken: i64,
    copied: usize,
    said: (usize, usize),
    done: Replayed,
}

impl<'t> Replay<'t> {
    fn of(trace: &'t Trace) -> Self {
        let started = trace.lines.iter().find_map(Line::at).unwrap_or_default();
        Self {
            trace,
            run: None,
            past: Past::default(),
            pauses: Vec::new(),
            anew: Vec::new(),
            responses: Vec::new(),
            started,
            now: started,
            line: 2,
            steps: Vec::new(),
            closed: None,
            followed: Vec::new(),
            taken: 0,
            copied: 0,
            said: (0, 0),
            done: Replayed::default(),
        }
    }

    fn differs(&self, what: &'static str, recorded: Value, replayed: Value) -> Box<Difference> {
        Box::new(Difference { line: self.line, iteration: self.done.iterations, what, recorded, replayed })
    }

    /// The run as an attempt starts it.
    fn resumed(&self) -> AgentRun {
        let header = &self.trace.header;
        let mut run = self.past.run(header.policy(), header, self.started);
        self.anew.iter().for_each(|(signal, at)| run.start_anew(*signal, *at));
        run
    }

    fn run(&mut self) -> &mut AgentRun {
        let run = self.run.take().unwrap_or_else(|| {
            let run = self.resumed();
            self.done.iterations = run.iterations();
            run
        });
        self.run.insert(run)
    }

    fn next(&mut self) -> Next {
        let now = self.now;
        self.run().next(now)
    }

    fn event(&mut self, at: DateTime<Utc>, event: &Event) -> Result<(), Box<Difference>> {
        match event {
            Event::AttemptStarted { .. } => {
                self.started = at;
                self.now = at;
                self.copied += self.past.history.len();
                if self.copied > MAX_COPIED {
                    let text = format!("at most {MAX_COPIED} entries are copied by attempts");
                    return Err(self.differs("size", Value::Null, json!(text)));
                }
                self.run = self.run.is_some().then(|| self.resumed());
            }
            Event::QuestionAsked(asked) => {
                let pause = asked.subject.as_deref().and_then(pause::of_subject);
                self.pauses.extend(pause.map(|(signal, at)| (asked.id, signal, at)));
            }
            Event::QuestionClosed(closed) => {
                let answer = closed.answer.clone().and_then(|answer| serde_json::from_value(answer).ok());
                let pause = self.pauses.iter().find(|(id, ..)| *id == closed.id).copied();
                if let (Some(PauseAnswer::Continue {}), Some((_, signal, at))) = (answer, pause) {
                    self.anew.push((signal, at));
                    self.run().start_anew(signal, at);
                }
            }
            Event::StepFinished { iteration, .. } => self.steps.push((self.line, *iteration)),
            Event::MessageSent { .. } => self.said.1 += 1,
            _ => {}
        }
        Ok(())
    }

    fn entry(&mut self, line: &Line) -> Result<(), Box<Difference>> {
        if self.is_taken(line) {
            self.now = line.at().unwrap_or(self.now);
            return Ok(());
        }
        match line {
            Line::Before(_) => self.past.read(line),
            Line::Message { content, .. } => self.message(content)?,
            Line::Answer { content, stop, .. } => self.answer(content, *stop)?,
            Line::Tool { call_id, response, name, .. } => self.tool(call_id, name, response)?,
            Line::Results { content, .. } => self.results(content)?,
            Line::Compressed { remaining, .. } => {
                self.past.read(line);
                let entries = self.run().history().len().saturating_sub(*remaining);
                if let Some((_, summary)) = self.past.compressed.clone() {
                    self.run().replace_prefix_with_summary(entries, summary);
                }
            }
            Line::Event { .. } | Line::Plan(_) | Line::Step(_) | Line::Advance(_) => {}
        }
        self.now = line.at().unwrap_or(self.now);
        Ok(())
    }

    /// Takes a line of the part that is not replayed.
    fn is_taken(&mut self, line: &Line) -> bool {
        if self.run.is_some() || self.past.next_position(&self.trace.header) > self.taken {
            return false;
        }
        let is_replayed = !matches!(
            line,
            Line::Before(_) | Line::Event { .. } | Line::Plan(_) | Line::Step(_) | Line::Advance(_)
        );
        if is_replayed {
            self.past.read(line);
        }
        is_replayed
    }

    fn push(&mut self, recorded: &[Block], entry: Entry) -> Result<(), Box<Difference>> {
        if entry.content != recorded {
            let first = entry.content.iter().zip(recorded).find(|(ours, theirs)| ours != theirs);
            return Err(match first {
                Some((ours, theirs)) => self.differs("entry", json!(theirs), json!(ours)),
                None => self.differs("entry", json!(recorded), json!(entry.content)),
            });
        }
        self.past.push(entry);
        self.done.entries += 1;
        Ok(())
    }

    fn message(&mut self, content: &[Block]) -> Result<(), Box<Difference>> {
        if self.run.is_none() {
            // What the claim of the first attempt read.
            return self.push(content, Entry::user(content.to_vec()));
        }
        let texts = content.iter().filter_map(Block::read).map(str::to_owned).collect();
        match self.run().on_messages(texts) {
            Some(entry) => self.push(content, entry),
            None => {
                let next = self.next();
                Err(self.differs("next", json!("read a message"), of_next(&next)))
            }
        }
    }

    fn answer(&mut self, content: &[Block], stop: StopReason) -> Result<(), Box<Difference>> {
        let next = self.next();
        ensure!(next == Next::CallModel, self.differs("next", json!("call the model"), of_next(&next)));
        self.followed.extend(self.closed.take());
        let answer = ModelAnswer {
            content: content.to_vec(),
            malformed: Vec::new(),
            stop,
            usage: crate::model::Usage::default(),
        };
        let turn = self.run().on_model(answer);
        self.done.iterations = self.run().iterations();
        let turn = turn.map_err(|empty| self.differs("entry", json!(content), json!(empty.to_string())))?;
        self.said.0 += usize::from(turn.reply.is_some());
        match turn.entry {
            Some(entry) => self.push(content, entry),
            None if content.is_empty() => Ok(()),
            None => Err(self.differs("entry", json!(content), Value::Null)),
        }
    }

    fn tool(&mut self, id: &str, name: &str, response: &ToolResponse) -> Result<(), Box<Difference>> {
        match self.next() {
            Next::CallTools(calls) if calls.iter().any(|call| call.id == id && call.name == name) => {
                self.responses.push((id.to_owned(), response.clone()));
                Ok(())
            }
            next => Err(self.differs("next", json!({"call_tool": name, "id": id}), of_next(&next))),
        }
    }

    fn results(&mut self, content: &[Block]) -> Result<(), Box<Difference>> {
        let responses = std::mem::take(&mut self.responses);
        let next = self.next();
        if let Some(text) = last_result(content).filter(|text| note::removed(text).len() < text.len()) {
            self.copied += self.past.history.len();
            let alone = self.run().clone().on_tools(responses.clone());
            let ours = alone.as_ref().and_then(|alone| last_result(&alone.content));
            if let Some(warning) = ours.and_then(|ours| note::added(text, ours)) {
                // What was counted besides the turns is not in the record: the warning itself is.
                self.run().warn(warning.to_owned());
            }
        }
        let Some(mut entry) = self.run().on_tools(responses) else {
            return Err(self.differs("next", json!("call tools"), of_next(&next)));
        };
        // Records of earlier versions have no codes.
        for blocks in entry.content.iter_mut().zip(content) {
            if let (Block::ToolResult { code, .. }, Block::ToolResult { code: None, .. }) = blocks {
                *code = None;
            }
        }
        self.closed = Some(self.done.iterations);
        self.push(content, entry)
    }
}

fn last_result(content: &[Block]) -> Option<&str> {
    match content.last() {
        Some(Block::ToolResult { content, .. }) => Some(content),
        _ => None,
    }
}

fn of_next(next: &Next) -> Value {
    match next {
        Next::CallModel => json!("call the model"),
        Next::CallTools(calls) => json!({"call_tools": calls}),
        Next::Done(status) => json!({"done": status}),
    }
}

impl Replay<'_> {
    /// Compares the ends of steps and the messages with the events that report them.
    fn check_steps(&mut self) -> Result<(), Box<Difference>> {
        if self.trace.lines.iter().all(|line| !matches!(line, Line::Event { .. })) {
            return Ok(());
        }
        let steps: BTreeSet<u32> = self.steps.iter().map(|(_, step)| *step).collect();
        for iteration in std::mem::take(&mut self.followed) {
            if !steps.contains(&iteration) {
                return Err(self.differs("event", Value::Null, json!({"step_finished": iteration})));
            }
            self.done.events += 1;
        }
        if let Some((line, step)) = self.steps.iter().find(|(_, step)| *step > self.done.iterations).copied()
        {
            self.line = line;
            return Err(self.differs("event", json!({"step_finished": step}), Value::Null));
        }
        let (replies, sent) = self.said;
        if replies > sent {
            return Err(self.differs("event", json!({"messages": sent}), json!({"messages": replies})));
        }
        self.done.events += sent;
        Ok(())
    }

    fn end(&mut self, at: DateTime<Utc>, status: RunStatus) -> Result<(), Box<Difference>> {
        self.done.events += 1;
        if self.done.iterations == 0 && self.run.is_none() && self.past.own == 0 {
            return Ok(());
        }
        // A clock ends a run while it waits for its model; everything else ends it at its last entry.
        if status == RunStatus::MaxDuration {
            self.now = at;
        }
        let next = self.next();
        match (status, &next) {
            (RunStatus::Cancelled | RunStatus::Failed | RunStatus::DeadLettered, _)
            | (RunStatus::MaxDuration, Next::CallTools(_)) => Ok(()),
            (status, next) if *next == Next::Done(status) => Ok(()),
            _ => Err(self.differs("end", json!({"done": status}), of_next(&next))),
        }
    }
}
