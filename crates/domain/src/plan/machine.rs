//! One walk over the steps of a plan: what may start starts, and what is done settles.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

use chrono::TimeDelta;
use serde_json::{Map, Value, json};

use super::by_hand::SKIPPED_BY_HAND;
use super::document::{Action, Document, Join, MAX_STEPS, OnError, Step};
use super::expression;
use super::resolve::{step as find, visible};
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

/// Which of a plan's outermost steps a walk looks at. Left out are settled steps, and pending ones that wait for a step which has
/// not settled while none before them has failed or was skipped. A plan may have thousands of both, and they cost nothing.
#[derive(Debug)]
pub struct Frontier {
    /// Places of steps in the document.
    ready: BTreeSet<usize>,
    /// By place: the places of those before it, in order, and of those that wait for it.
    after: Vec<Vec<usize>>,
    waiting: Vec<Vec<usize>>,
    /// By place: how many of those before it have not settled.
    waits: Vec<usize>,
    /// Steps that have not settled.
    open: usize,
}

impl Frontier {
    /// That of a plan.
    pub fn new(document: &Document, states: &States) -> Self {
        let steps = &document.steps;
        let places = by_id(steps);
        let after: Vec<_> = steps.iter().map(|step| places_after(step, &places)).collect();
        let mut waiting = vec![Vec::new(); steps.len()];
        for (place, after) in after.iter().enumerate() {
            after.iter().for_each(|other| waiting[*other].push(place));
        }
        let now: Vec<Status> = steps.iter().map(|step| status(states, &step.id)).collect();
        let is_open = |place: &usize| !now[*place].is_settled();
        let waits: Vec<_> =
            after.iter().map(|after| after.iter().filter(|other| is_open(other)).count()).collect();
        let is_in_vain = |other: &usize| !is_open(other) && now[*other] != Status::Succeeded;
        // What waits for a step that was repeated by hand may have begun long ago.
        let is_looked_at = |place: &usize| {
            now[*place] != Status::Pending || waits[*place] == 0 || after[*place].iter().any(is_in_vain)
        };
        let open: Vec<usize> = (0..steps.len()).filter(is_open).collect();
        let ready = open.iter().copied().filter(is_looked_at).collect();
        Self { ready, after, waiting, waits, open: open.len() }
    }

    /// How many steps a walk looks at, and those that wait for one of them: they may begin in the same walk.
    pub fn width(&self) -> usize {
        let follow = self.ready.iter().filter_map(|place| self.waiting.get(*place)).map(Vec::len);
        self.ready.len() + follow.sum::<usize>()
    }

    pub(super) fn is_done(&self) -> bool {
        self.open == 0
    }

    /// Takes out what has settled since the last walk.
    pub fn refresh(&mut self, document: &Document, states: &States) {
        for place in self.ready.iter().copied().collect::<Vec<_>>() {
            self.look(place, &document.steps, states);
        }
    }

    /// Takes out a step if it has settled. Takes in those that waited for nothing else, and if it has not succeeded, all that
    /// waited for it: they may be skipped.
    fn look(&mut self, place: usize, steps: &[Step], states: &States) {
        let of = |place: usize| steps.get(place).map(|step| status(states, &step.id)).unwrap_or_default();
        if !of(place).is_settled() || !self.ready.remove(&place) {
            return;
        }
        self.open -= 1;
        for other in self.waiting.get(place).into_iter().flatten() {
            if let Some(waits) = self.waits.get_mut(*other) {
                *waits -= 1;
                let is_looked_at = *waits == 0 || of(place) != Status::Succeeded;
                self.ready.extend((is_looked_at && !of(*other).is_settled()).then_some(*other));
            }
        }
    }

    /// One that looks at each step in each walk.
    #[cfg(test)]
    pub(super) fn of_all(document: &Document, states: &States) -> Self {
        let frontier = Self::new(document, states);
        let is_open = |place: &usize| !status(states, &document.steps[*place].id).is_settled();
        let ready = (0..document.steps.len()).filter(is_open).collect();
        Self { ready, waiting: Vec::new(), ..frontier }
    }
}

/// The places of the steps that this one waits for, in order.
pub(super) fn places_after(step: &Step, places: &HashMap<&str, usize>) -> Vec<usize> {
    let mut after: Vec<usize> = step.after.iter().filter_map(|id| places.get(id.as_str()).copied()).collect();
    after.sort_unstable();
    after.dedup();
    after
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
pub(super) fn by_id(steps: &[Step]) -> HashMap<&str, usize> {
    steps.iter().enumerate().map(|(place, step)| (step.id.as_str(), place)).collect()
}

impl<'m> Machine<'m, '_> {
    /// Walks over the steps of the document that may change.
    pub(super) fn outermost(&mut self, frontier: &mut Frontier, scope: &Value) {
        let steps: &'m [Step] = &self.document.steps;
        let mut from = 0;
        while let Some(place) = frontier.ready.range(from..).next().copied().filter(|_| self.stop.is_none()) {
            from = place + 1;
            let Some(step) = steps.get(place) else { return };
            let after = frontier.after.get(place).into_iter().flatten().filter_map(|other| steps.get(*other));
            self.visit(step, (&step.id, ""), scope, || after);
            frontier.look(place, steps, self.states);
        }
    }

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
            if before.is_settled() || (before == Status::Pending && moving >= at_once) {
                continue;
            }
            let after = || places_after(step, places.get_or_init(|| by_id(steps)));
            self.visit(step, (&path, prefix), scope, || {
                after().into_iter().filter_map(|place| steps.get(place))
            });
            moving += usize::from(is_moving(status(self.states, &path)));
            moving -= usize::from(is_moving(before)).min(moving);
        }
    }

    /// Lets a step begin, go on or settle, if it can. `after`: the steps that it waits for.
    fn visit<'s, I: Iterator<Item = &'s Step>>(
        &mut self,
        step: &Step,
        (path, prefix): (&str, &str),
        scope: &Value,
        after: impl FnOnce() -> I,
    ) {
        match status(self.states, path) {
            status if status.is_settled() => {}
            Status::Pending => {
                if self.is_ready(step, path, prefix, after) {
                    let scope = visible(&step.after, prefix, scope, self.states);
                    self.pending(step, path, &scope);
                }
            }
            Status::Running if step.action.is_container() => {
                let scope = visible(&step.after, prefix, scope, self.states);
                self.container(step, path, &scope);
            }
            _ => self.due(step, path),
        }
    }

    fn settle(&mut self, step: &Step, path: &str, status: Status, result: Value, error: Option<Failure>) {
        let state = self.states.of(path);
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
    fn is_ready<'s, I: Iterator<Item = &'s Step>>(
        &mut self,
        step: &Step,
        path: &str,
        prefix: &str,
        after: impl FnOnce() -> I,
    ) -> bool {
        if !step.after.is_empty() {
            for other in after() {
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
        let (status, seconds) = match &step.action {
            Action::Input { expires_s, .. } => (Status::Asking, *expires_s),
            _ => (Status::Running, step.timeout_s.unwrap_or(60)),
        };
        state.status = status;
        let due = self.given.now + TimeDelta::seconds(seconds.into());
        state.due = (!step.action.is_container()).then_some(due);
        match decided(&step.action, scope) {
            Ok(turns) if !self.has_room(step, turns.len()) => return self.too_many(step, path),
            Ok(turns) => state.turns = turns,
            Err(message) => return self.invalid(step, path, message),
        }
        *self.states.of(path) = state;
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
        let message = format!("the turns of all loops have more than {MAX_STEPS} steps: limit the list");
        self.invalid(step, path, message);
    }

    fn due(&mut self, step: &Step, path: &str) {
        let is_due = |state: &&State| state.due.is_some_and(|due| due <= self.given.now);
        let Some(state) = self.states.get(path).filter(is_due) else { return };
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
                let turns = self.states.get(path).map(|state| &state.turns[..]);
                let is_true = matches!(turns, Some([Value::Bool(true), ..]));
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
            let of = |child: &Step| {
                let state = self.states.get(&format!("{path}.{}", child.id));
                (child.id.clone(), state.map(|state| state.result.clone()).unwrap_or_default())
            };
            let result = match step.action {
                Action::Condition { .. } => last,
                _ => steps.iter().map(of).collect::<Map<_, _>>().into(),
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
                    self.states.of(path).turns.push(turns.len().into());
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
