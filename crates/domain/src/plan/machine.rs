//! One walk over the steps of a plan: what may start starts, and what is done settles.

use std::cell::OnceCell;
use std::collections::HashMap;

use chrono::TimeDelta;
use serde_json::{Map, Value, json};

use super::by_hand::SKIPPED_BY_HAND;
use super::document::{Action, Document, Join, MAX_STEPS, OnError, Step};
use super::expression;
use super::resolve::step as find;
use super::resolve::visible;
use super::state::{Advance, Failure, Given, State, States, Status, fail, is_moving, status};

/// How steps of a container have ended.
struct Outcome {
    /// Whether any succeeded.
    any: bool,
    /// Whether none failed.
    all: bool,
    /// The last result.
    last: Value,
}

pub(super) struct Machine<'m, 'g> {
    pub(super) document: &'m Document,
    pub(super) states: &'m mut States,
    pub(super) given: &'m Given<'g>,
    pub(super) out: &'m mut Advance,
    pub(super) stop: Option<Failure>,
    pub(super) changed: bool,
    /// Work that runs, once it was counted, until that changes.
    pub(super) running: Option<usize>,
}

/// The places of steps in their list.
fn by_id(steps: &[Step]) -> HashMap<&str, usize> {
    steps.iter().enumerate().map(|(place, step)| (step.id.as_str(), place)).collect()
}

impl Machine<'_, '_> {
    pub(super) fn list(&mut self, steps: &[Step], prefix: &str, scope: &Value, at_once: usize) {
        let mut path = prefix.to_owned();
        let mut moving = 0;
        if at_once != usize::MAX {
            let is_moving = |step: &&Step| is_moving(status(self.states, &format!("{prefix}{}", step.id)));
            moving = steps.iter().filter(is_moving).count();
        }
        let places = OnceCell::new();
        for step in steps {
            if self.stop.is_some() {
                return;
            }
            path.truncate(prefix.len());
            path.push_str(&step.id);
            let before = status(self.states, &path);
            if before.is_settled() {
                continue;
            }
            match before {
                Status::Pending if moving >= at_once => {}
                Status::Pending => {
                    let places = || places.get_or_init(|| by_id(steps));
                    if self.is_ready(step, &path, prefix, (steps, places)) {
                        let scope = visible(&step.after, prefix, scope, self.states);
                        self.pending(step, &path, &scope);
                    }
                }
                Status::Running if step.action.is_container() => {
                    let scope = visible(&step.after, prefix, scope, self.states);
                    self.container(step, &path, &scope);
                }
                _ => self.due(step, &path),
            }
            moving += usize::from(is_moving(status(self.states, &path)));
            moving -= usize::from(is_moving(before)).min(moving);
        }
    }

    fn settle(&mut self, step: &Step, path: &str, status: Status, result: Value, error: Option<Failure>) {
        let state = self.states.entry(path.to_owned()).or_default();
        *state = State { status, result, error, due: None, ..std::mem::take(state) };
        (self.changed, self.running) = (true, None);
        if status == Status::Failed && step.on_error == OnError::Fail {
            self.stop = state.error.clone();
        }
    }

    fn skip(&mut self, step: &Step, path: &str, reason: &str) {
        self.settle(step, path, Status::Skipped, Value::Null, Some(Failure::new(reason, "was not needed")));
    }

    fn invalid(&mut self, step: &Step, path: &str, message: String) {
        let failure = Failure::new("VALIDATION_ERROR", message);
        self.settle(step, path, Status::Failed, Value::Null, Some(failure));
    }

    /// Whether what a pending step waits for has settled, and there is room for it. Skips it if it is in vain.
    fn is_ready<'s>(
        &mut self,
        step: &Step,
        path: &str,
        prefix: &str,
        (steps, places): (&[Step], impl FnOnce() -> &'s HashMap<&'s str, usize>),
    ) -> bool {
        if !step.after.is_empty() {
            let places = places();
            let mut after: Vec<usize> =
                step.after.iter().filter_map(|id| places.get(id.as_str()).copied()).collect();
            after.sort_unstable();
            for other in after.into_iter().filter_map(|place| steps.get(place)) {
                let state = self.states.get(&format!("{prefix}{}", other.id));
                let reason = state.and_then(|state| state.error.as_ref()).map(|error| error.code.as_str());
                let met = match state.map(|state| state.status).unwrap_or_default() {
                    Status::Succeeded => true,
                    Status::Skipped => matches!(reason, Some("when" | "branch" | SKIPPED_BY_HAND)),
                    Status::Failed => other.on_error == OnError::Continue,
                    Status::Cancelled => false,
                    _ => return false,
                };
                if !met {
                    self.skip(step, path, "dependency_failed");
                    return false;
                }
            }
        }
        step.when.is_some() || self.may_begin(step)
    }

    fn pending(&mut self, step: &Step, path: &str, scope: &Value) {
        match step.when.as_deref().map(|when| expression::condition(when, scope)) {
            Some(Ok(false)) => return self.skip(step, path, "when"),
            Some(Err(error)) => return self.invalid(step, path, format!("when: {error}")),
            _ => {}
        }
        self.begin(step, path, scope);
    }

    /// Whether the plan has room for the work of a step.
    fn may_begin(&mut self, step: &Step) -> bool {
        if self.given.paused || step.action.is_container() {
            return !self.given.paused;
        }
        let is_running = |state: &&State| state.status == Status::Running && state.due.is_some();
        let running = *self.running.get_or_insert_with(|| self.states.values().filter(is_running).count());
        running < self.given.at_once
    }

    fn begin(&mut self, step: &Step, path: &str, scope: &Value) {
        if !self.may_begin(step) {
            return;
        }
        let mut state = self.states.get(path).cloned().unwrap_or_default();
        state.attempt += 1;
        state.status = Status::Running;
        let seconds = match &step.action {
            Action::Input { expires_s, .. } => {
                state.status = Status::Asking;
                *expires_s
            }
            _ => step.timeout_s.unwrap_or(60),
        };
        state.due =
            (!step.action.is_container()).then(|| self.given.now + TimeDelta::seconds(seconds.into()));
        match decided(&step.action, scope) {
            Ok(turns) if !self.has_room(step, turns.len()) => return self.too_many(step, path),
            Ok(turns) => state.turns = turns,
            Err(message) => return self.invalid(step, path, message),
        }
        self.states.insert(path.to_owned(), state);
        (self.changed, self.running) = (true, None);
        if !step.action.is_container() {
            self.out.start.push(path.to_owned());
        }
    }

    /// Whether so many more turns of a loop keep the plan small enough to be read whole.
    fn has_room(&self, step: &Step, turns: usize) -> bool {
        let Action::Loop { steps, .. } = &step.action else { return true };
        let begun = self.states.iter().filter(|(_, state)| !state.turns.is_empty());
        let in_turns = begun.map(|(path, state)| match find(self.document, path).map(|step| &step.action) {
            Some(Action::Loop { steps, .. }) => state.turns.len() * steps.len(),
            _ => 0,
        });
        in_turns.sum::<usize>() + turns * steps.len() <= MAX_STEPS
    }

    fn too_many(&mut self, step: &Step, path: &str) {
        self.invalid(
            step,
            path,
            format!("the turns of all loops have more than {MAX_STEPS} steps: limit the list"),
        );
    }

    fn due(&mut self, step: &Step, path: &str) {
        let Some(state) =
            self.states.get(path).filter(|state| state.due.is_some_and(|due| due <= self.given.now))
        else {
            return;
        };
        match (state.status, &step.action) {
            (Status::Retrying, _) => self.begin(step, path, &Value::Null),
            (_, Action::Input { default: Some(default), .. }) => {
                self.settle(step, path, Status::Succeeded, default.clone(), None);
            }
            (Status::Asking, _) => {
                let failure = Failure::new("TIMEOUT", "there was no answer in time");
                self.settle(step, path, Status::Failed, Value::Null, Some(failure));
            }
            _ => {
                self.out.cancel.push(path.to_owned());
                let failure = Failure::new("TIMEOUT", "took longer than it may");
                self.changed |= fail(step, self.states, path, failure, self.given.now, 1.0);
                self.running = None;
                if status(self.states, path) == Status::Failed && step.on_error == OnError::Fail {
                    self.stop = self.states.get(path).and_then(|state| state.error.clone());
                }
            }
        }
    }

    fn container(&mut self, step: &Step, path: &str, scope: &Value) {
        match &step.action {
            Action::Condition { then, otherwise, .. } => {
                let is_true = self
                    .states
                    .get(path)
                    .is_some_and(|state| state.turns.first() == Some(&Value::Bool(true)));
                let (taken, left) = if is_true { (then, otherwise) } else { (otherwise, then) };
                let prefix = format!("{path}.");
                for other in left {
                    let other_path = format!("{prefix}{}", other.id);
                    if !status(self.states, &other_path).is_settled() {
                        self.skip(other, &other_path, "branch");
                    }
                }
                self.list(taken, &prefix, scope, usize::MAX);
                self.joined(step, path, taken, Join::All);
            }
            Action::Parallel { steps, join, at_once } => {
                self.list(steps, &format!("{path}."), scope, *at_once);
                self.joined(step, path, steps, *join);
            }
            Action::Loop { .. } => self.turns(step, path, scope),
            _ => {}
        }
    }

    /// Settles a container whose steps have settled.
    fn joined(&mut self, step: &Step, path: &str, steps: &[Step], join: Join) {
        if let Some(Outcome { any, all, last }) = self.outcome(steps, &format!("{path}.")) {
            let ok = match join {
                Join::All => all,
                Join::Any => any,
                Join::Settled => true,
            };
            let result = match join {
                Join::All if matches!(step.action, Action::Condition { .. }) => last,
                _ => steps
                    .iter()
                    .map(|child| {
                        let result = self
                            .states
                            .get(&format!("{path}.{}", child.id))
                            .map(|state| state.result.clone());
                        (child.id.clone(), result.unwrap_or_default())
                    })
                    .collect::<Map<_, _>>()
                    .into(),
            };
            self.close(step, path, ok, result);
        }
    }

    fn close(&mut self, step: &Step, path: &str, ok: bool, result: Value) {
        let error = (!ok).then(|| Failure::new("STEP_FAILED", format!("a step of `{}` failed", step.id)));
        let status = if ok { Status::Succeeded } else { Status::Failed };
        self.settle(step, path, status, result, error);
    }

    /// That of steps that have all settled.
    fn outcome(&self, steps: &[Step], prefix: &str) -> Option<Outcome> {
        let (mut any, mut all, mut last) = (false, true, Value::Null);
        for step in steps {
            let state =
                self.states.get(&format!("{prefix}{}", step.id)).filter(|state| state.status.is_settled())?;
            any |= state.status == Status::Succeeded;
            all &= step.on_error == OnError::Continue
                || !matches!(state.status, Status::Failed | Status::Cancelled);
            if state.status == Status::Succeeded {
                last = state.result.clone();
            }
        }
        Some(Outcome { any, all, last })
    }

    fn turns(&mut self, step: &Step, path: &str, scope: &Value) {
        let Action::Loop { test, name, max, at_once, steps, .. } = &step.action else { return };
        let turns = self.states.get(path).map(|state| state.turns.clone()).unwrap_or_default();
        let (mut results, mut open, mut ok) = (Vec::new(), 0, true);
        for (turn, item) in turns.iter().enumerate() {
            if open >= *at_once || self.stop.is_some() {
                return;
            }
            let prefix = format!("{path}[{turn}].");
            let mut outcome = self.outcome(steps, &prefix);
            if outcome.is_none() {
                let mut inner = scope.as_object().cloned().unwrap_or_default();
                inner.insert(name.clone(), item.clone());
                self.list(steps, &prefix, &Value::Object(inner), usize::MAX);
                outcome = self.outcome(steps, &prefix);
            }
            match outcome {
                Some(Outcome { all, last, .. }) => {
                    ok &= all;
                    results.push(last);
                }
                None => open += 1,
            }
        }
        if open > 0 {
            return;
        }
        if let Some(test) = test.as_ref().filter(|_| ok && turns.len() < *max) {
            let mut scope = scope.as_object().cloned().unwrap_or_default();
            scope.insert(step.id.clone(), json!({"status": "running", "result": results, "error": null}));
            match expression::condition(test, &Value::Object(scope)) {
                Ok(true) if !self.has_room(step, 1) => return self.too_many(step, path),
                Ok(true) => {
                    let state = self.states.entry(path.to_owned()).or_default();
                    state.turns.push(turns.len().into());
                    self.changed = true;
                    return;
                }
                Ok(false) => {}
                Err(error) => return self.invalid(step, path, format!("while: {error}")),
            }
        }
        self.close(step, path, ok, results.into());
    }
}

/// What a container decides once, when it begins: the items of a loop, or whether a condition is true.
fn decided(action: &Action, scope: &Value) -> Result<Vec<Value>, String> {
    match action {
        Action::Loop { over: Some(over), max, .. } => match expression::evaluate(over, scope) {
            Ok(Value::Array(items)) if items.len() <= *max => Ok(items),
            Ok(Value::Array(items)) => {
                Err(format!("over: has {} items, at most {max} are allowed", items.len()))
            }
            Ok(_) => Err("over: is not a list".to_owned()),
            Err(error) => Err(format!("over: {error}")),
        },
        Action::Condition { test, .. } => expression::condition(test, scope)
            .map(|is_true| vec![is_true.into()])
            .map_err(|error| format!("if: {error}")),
        _ => Ok(Vec::new()),
    }
}
