//! The lines of a plan, and its replay: the state machine is given the recorded outcomes, and what it says is compared.
//!
//! ```text
//! {"type":"plan","at":"…","version":1,"document":{"v":1,…},"tools":["search"],"input":…,"deadline":"…","at_once":5}
//! {"type":"advance","at":"…","start":["find"],"cancel":[],"wait_until":"…"}
//! {"type":"step","at":"…","path":"find","outcome":"succeeded","result":"…"}
//! {"type":"step","at":"…","path":"find","outcome":"failed","code":"TIMEOUT","message":"…","retry_at":"…"}
//! {"type":"advance","at":"…","start":[],"cancel":[],"end":{"status":"completed","output":"…"}}
//! ```

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Trace;
use super::replay::{Difference, Replayed};
use crate::event::Event;
use crate::plan::{
    Document, End, Failure, Given, MAX_STEPS, Offer, States, Status, advance, answer, fail, is_inside,
    status, step, succeed,
};
use crate::run::RunStatus;

/// The driver of the runs whose traces have these lines.
pub const DRIVER: &str = "plan";

/// A version of the document. The first one begins the plan; a later one changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// Its number, from 1.
    pub version: u32,
    /// The document.
    pub document: Value,
    /// The tools that its steps might call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The plan's input.
    #[serde(default)]
    pub input: Value,
    /// When the plan has to have ended.
    pub deadline: DateTime<Utc>,
    /// How many steps run at the same time.
    pub at_once: usize,
    /// Whether the plan may be changed after it.
    #[serde(default)]
    pub may_replan: bool,
    /// Paths of steps that begin anew, as if they had never been started: those that this version changed or removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// When it was committed.
    pub at: DateTime<Utc>,
    /// The path of the step, such as `each[2].read`.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// How the work of a step ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It returned this.
    Succeeded {
        /// What it returned.
        #[serde(default)]
        result: Value,
    },
    /// A person answered it.
    Answered {
        /// The answer.
        #[serde(default)]
        result: Value,
    },
    /// It failed.
    Failed {
        /// Stable code.
        code: String,
        /// Sentence for people and models.
        message: String,
        /// When it is repeated; `None`: it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<DateTime<Utc>>,
    },
}

/// What the state machine said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advanced {
    /// The time that it was given.
    pub at: DateTime<Utc>,
    /// Whether nothing new was to start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Whether the plan was to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// Paths whose work begins.
    #[serde(default)]
    pub start: Vec<String>,
    /// Paths whose work is cancelled.
    #[serde(default)]
    pub cancel: Vec<String>,
    /// Paths that have settled since the line before, and how. Empty: they are not compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settled: BTreeMap<String, String>,
    /// The next time something is due. `None`: it is not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_until: Option<DateTime<Utc>>,
    /// How the plan ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// Replays the plan of a trace.
///
/// # Errors
/// The first [`Difference`]; `iteration` is the version of the document.
pub(super) fn replay(trace: &Trace) -> Result<Replayed, Box<Difference>> {
    let mut machine = Machine::default();
    let mut finished = None;
    for (index, line) in trace.lines.iter().enumerate() {
        machine.line = index + 2;
        match line {
            super::Line::Plan(version) => machine.change(version)?,
            super::Line::Step(report) => machine.report(report)?,
            super::Line::Advance(advanced) => machine.advance(advanced)?,
            super::Line::Event { event, .. } => {
                if let Event::RunFinished { status, .. } = &**event {
                    finished = Some((machine.line, *status));
                }
            }
            _ => {}
        }
    }
    if let Some((line, status)) = finished {
        machine.line = line;
        let is_done = matches!(status, RunStatus::Completed | RunStatus::MessageSent);
        let is_same = match machine.ended {
            Some(End::Completed { .. }) => is_done,
            // A run may also end from outside: a person cancels it, or its workers die.
            _ => !is_done,
        };
        ensure!(is_same, machine.differs("end", json!({"done": status}), json!(machine.ended)));
    }
    Ok(Replayed { status: finished.map(|(_, status)| status), ..machine.done })
}

/// A plan as the trace has brought it so far.
#[derive(Default)]
struct Machine {
    line: usize,
    ended: Option<End>,
    plan: Option<(Document, Version)>,
    states: States,
    done: Replayed,
    /// Paths that had settled at the last line of what the machine said.
    settled: BTreeSet<String>,
}

/// The most advances that are replayed: each may take the fuel of all expressions of a document.
const MAX_ADVANCES: usize = 20_000;

type Replay = Result<(), Box<Difference>>;

impl Machine {
    fn differs(&self, what: &'static str, recorded: Value, replayed: Value) -> Box<Difference> {
        let iteration = self.plan.as_ref().map_or(0, |(_, version)| version.version);
        Box::new(Difference { line: self.line, iteration, what, recorded, replayed })
    }

    /// A version of the document is read as the one that was posted.
    fn change(&mut self, version: &Version) -> Replay {
        let tools: Vec<&str> = version.tools.iter().map(String::as_str).collect();
        let offer = Offer { tools: &tools, steps: MAX_STEPS };
        let document = Document::parse(&version.document.to_string(), offer).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            self.differs("plan", json!("accepted"), json!({"refused": problems}))
        })?;
        // What was in a step that begins anew begins anew, too.
        let is_forgotten = |path: &str| version.forgotten.iter().any(|of| is_inside(path, of));
        self.states.forget(is_forgotten);
        self.settled.retain(|path| !is_forgotten(path));
        self.ended = None;
        let version = Version { document: Value::Null, ..version.clone() };
        self.plan = Some((document, version));
        Ok(())
    }

    /// A step must be open in the way that its outcome closes.
    fn report(&mut self, report: &Report) -> Replay {
        let Report { at, path, outcome } = report;
        let before = status(&self.states, path);
        let taken = match outcome {
            Outcome::Succeeded { result } => succeed(&mut self.states, path, result.clone()),
            Outcome::Answered { result } => answer(&mut self.states, path, result.clone()),
            Outcome::Failed { code, message, retry_at } => {
                let error = Failure { code: code.clone(), message: message.clone() };
                self.fail(path, error, *at, *retry_at)?
            }
        };
        ensure!(taken, self.differs("step", json!(report), json!({"status": before})));
        self.done.steps += 1;
        Ok(())
    }

    fn fail(
        &mut self,
        path: &str,
        error: Failure,
        at: DateTime<Utc>,
        retry_at: Option<DateTime<Utc>>,
    ) -> Result<bool, Box<Difference>> {
        let Some((document, _)) = &self.plan else { return Ok(false) };
        let Some(step) = step(document, path) else { return Ok(false) };
        // The longest pause: the recorded one is a random part of it.
        if !fail(step, &mut self.states, path, error, at, 1.0) {
            return Ok(false);
        }
        let latest = self.states.get(path).filter(|state| state.status == Status::Retrying);
        let latest = latest.and_then(|state| state.due);
        let is_same = match (retry_at, latest) {
            (Some(retry_at), Some(latest)) => (at..=latest).contains(&retry_at),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            let recorded = json!({"path": path, "retry_at": retry_at});
            return Err(self.differs("step", recorded, json!({"path": path, "retry_before": latest})));
        }
        if let Some(state) = self.states.get_mut(path) {
            state.due = retry_at;
        }
        Ok(true)
    }

    fn advance(&mut self, recorded: &Advanced) -> Replay {
        if self.done.advances >= MAX_ADVANCES {
            let text = format!("at most {MAX_ADVANCES} are replayed");
            return Err(self.differs("size", Value::Null, json!(text)));
        }
        let Some((document, version)) = &self.plan else {
            return Err(self.differs("advance", json!("a plan"), json!("there is no plan yet")));
        };
        let given = Given {
            input: &version.input,
            now: recorded.at,
            paused: recorded.paused,
            cancelled: recorded.cancelled,
            deadline: version.deadline,
            may_replan: version.may_replan,
            at_once: version.at_once,
        };
        let next = advance(document, &mut self.states, &given);
        let settled = self.newly_settled();
        let Advanced { start, cancel, wait_until, end, .. } = recorded;
        let ours = Advanced {
            start: next.start,
            cancel: next.cancel,
            settled: if recorded.settled.is_empty() { BTreeMap::new() } else { settled },
            wait_until: wait_until.and(next.wait_until),
            end: next.end.clone(),
            ..recorded.clone()
        };
        if ours != *recorded {
            let is_end = (start, cancel) == (&ours.start, &ours.cancel) && *end != next.end;
            let what = if is_end { "end" } else { "advance" };
            return Err(self.differs(what, json!(recorded), json!(ours)));
        }
        self.ended = next.end;
        self.done.advances += 1;
        Ok(())
    }

    /// Paths that have settled since this was asked last.
    fn newly_settled(&mut self) -> BTreeMap<String, String> {
        let settled = self.states.iter().filter(|(_, state)| state.status.is_settled());
        let new = settled.filter(|(path, _)| !self.settled.contains(*path));
        let new: BTreeMap<String, String> =
            new.map(|(path, state)| (path.clone(), state.status.as_str().to_owned())).collect();
        self.settled.extend(new.keys().cloned());
        new
    }
}

#[cfg(test)]
mod tests;
