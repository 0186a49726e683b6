//! The state machine of a plan, driven by the lines of a trace.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{Advanced, Ended, Outcome, Report, Version, name_of};
use crate::plan::{
    Action, Document, Failure, Given, MAX_STEPS, Offer, States, Status, Step, advance, answer, fail, succeed,
};
use crate::run::RunStatus;
use crate::trace::replay::{Difference, Replayed};

/// A plan as the trace has brought it so far.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) line: usize,
    pub(super) ended: Option<Ended>,
    plan: Option<(Document, Version)>,
    states: States,
    steps: usize,
    advances: usize,
    /// Paths that had settled at the last line of what the machine said.
    settled: BTreeSet<String>,
}

/// The most advances that are replayed: each may take the fuel of all expressions of a document.
const MAX_ADVANCES: usize = 20_000;

type Replay = Result<(), Box<Difference>>;

impl Machine {
    pub(super) fn differs(&self, what: &'static str, recorded: Value, replayed: Value) -> Box<Difference> {
        let iteration = self.plan.as_ref().map_or(0, |(_, version)| version.version);
        Box::new(Difference { line: self.line, iteration, what, recorded, replayed })
    }

    pub(super) fn replayed(&self, status: Option<RunStatus>) -> Replayed {
        Replayed { steps: self.steps, advances: self.advances, status, ..Replayed::default() }
    }

    /// A version of the document is read as the one that was posted.
    pub(super) fn change(&mut self, version: &Version) -> Replay {
        let tools: Vec<&str> = version.tools.iter().map(String::as_str).collect();
        let offer = Offer { tools: &tools, steps: MAX_STEPS };
        let document = Document::parse(&version.document.to_string(), offer).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            self.differs("plan", json!("accepted"), json!({"refused": problems}))
        })?;
        for path in &version.forgotten {
            self.states.remove(path);
            self.settled.remove(path);
        }
        // What was in a step that begins anew begins anew, too.
        let is_in = |path: &str, of: &String| {
            path.strip_prefix(of.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        self.states.retain(|path, _| !version.forgotten.iter().any(|of| is_in(path, of)));
        self.settled.retain(|path| !version.forgotten.iter().any(|of| is_in(path, of)));
        self.ended = None;
        let version = Version { document: Value::Null, ..version.clone() };
        self.plan = Some((document, version));
        Ok(())
    }

    /// A step must be open in the way that its outcome closes.
    pub(super) fn report(&mut self, report: &Report) -> Replay {
        let Report { at, path, outcome } = report;
        let before = self.status(path);
        let taken = match outcome {
            Outcome::Succeeded { result } => succeed(&mut self.states, path, result.clone()),
            Outcome::Answered { result } => answer(&mut self.states, path, result.clone()),
            Outcome::Failed { code, message, retry_at } => {
                let error = Failure { code: code.clone(), message: message.clone() };
                self.fail(path, error, *at, *retry_at)?
            }
        };
        if !taken {
            return Err(self.differs("step", json!(report), json!({"status": name_of(before)})));
        }
        self.steps += 1;
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
        let Some(step) = step_at(&document.steps, path) else { return Ok(false) };
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

    pub(super) fn advance(&mut self, recorded: &Advanced) -> Replay {
        if self.advances >= MAX_ADVANCES {
            return Err(self.differs(
                "size",
                Value::Null,
                json!(format!("at most {MAX_ADVANCES} are replayed")),
            ));
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
        let ended = next.end.map(Ended::from);
        let ours = Advanced {
            start: next.start,
            cancel: next.cancel,
            settled: if recorded.settled.is_empty() { BTreeMap::new() } else { settled },
            wait_until: wait_until.and(next.wait_until),
            end: ended.clone(),
            ..recorded.clone()
        };
        if ours != *recorded {
            let what = if (start, cancel) == (&ours.start, &ours.cancel) && *end != ended {
                "end"
            } else {
                "advance"
            };
            return Err(self.differs(what, json!(recorded), json!(ours)));
        }
        self.ended = ended;
        self.advances += 1;
        Ok(())
    }

    fn status(&self, path: &str) -> Status {
        self.states.get(path).map(|state| state.status).unwrap_or_default()
    }

    /// Paths that have settled since this was asked last.
    fn newly_settled(&mut self) -> BTreeMap<String, String> {
        let settled = self.states.iter().filter(|(_, state)| state.status.is_settled());
        let new = settled.filter(|(path, _)| !self.settled.contains(*path));
        let new: BTreeMap<String, String> =
            new.map(|(path, state)| (path.clone(), name_of(state.status).to_owned())).collect();
        self.settled.extend(new.keys().cloned());
        new
    }
}

/// The step of a path such as `each[2].read`.
fn step_at<'d>(steps: &'d [Step], path: &str) -> Option<&'d Step> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let id = first.split_once('[').map_or(first, |(id, _)| id);
    let step = steps.iter().find(|step| step.id == id)?;
    let Some(rest) = rest else { return Some(step) };
    match &step.action {
        Action::Condition { then, otherwise, .. } => step_at(then, rest).or_else(|| step_at(otherwise, rest)),
        Action::Parallel { steps, .. } | Action::Loop { steps, .. } => step_at(steps, rest),
        _ => None,
    }
}
