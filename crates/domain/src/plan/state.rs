//! The state machine of a plan: which steps start, are skipped or settle, and how the plan ends.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::checklist::Checklist;
use super::document::{Action, Document, OnError, Retry, Step};
use super::expression;
use super::machine::{Frontier, Machine};
use super::resolve::{outermost, visible};
use crate::id::{AgentableId, QuestionId};
use crate::task::NewTask;

names! {
    /// Status of a step.
    #[derive(PartialOrd, Ord, Hash, Default)]
    pub enum Status {
        #[default]
        Pending = "pending",
        Running = "running",
        /// Waits for its next attempt.
        Retrying = "retrying",
        /// Waits for a person's answer.
        Asking = "asking",
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
        Skipped = "skipped",
    }
}

impl Status {
    /// Whether it never changes again.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::Skipped)
    }
}

/// Why a step failed or was skipped: `{"code": "TIMEOUT", "message": "took longer than it may"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlanStepError))]
pub struct Failure {
    /// Stable code.
    pub code: String,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure with this code and sentence.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}

/// State of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// How far it is.
    pub status: Status,
    /// How often it was started.
    pub attempt: u32,
    /// What it returned.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// Why it failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// When it is started again (retrying), or fails or takes its default (running, asking).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<DateTime<Utc>>,
    /// Items of a loop's turns so far; of a condition, whether it was true, once that is decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Value>,
    /// It failed, and the plan was changed because of it: its failure no longer fails the plan.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
}

/// States by path, as in `each[2].read`. A step without one is pending. They know which of them were changed since the last
/// commit, so that what follows from a change costs no more in a plan of thousands of steps.
#[derive(Debug, Clone, Default)]
pub struct States {
    now: BTreeMap<String, State>,
    /// Those that were changed, as they are committed.
    committed: BTreeMap<String, Option<State>>,
}

impl States {
    /// Without any state.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state of a step, to change it; without one, it gets one.
    pub fn of(&mut self, path: &str) -> &mut State {
        self.keep(path);
        self.now.entry(path.to_owned()).or_default()
    }

    /// The state of a step, to change it, if it has one.
    pub fn get_mut(&mut self, path: &str) -> Option<&mut State> {
        if self.now.contains_key(path) {
            self.keep(path);
        }
        self.now.get_mut(path)
    }

    /// Forgets the states of the steps with such paths.
    pub fn forget(&mut self, is: impl Fn(&str) -> bool) {
        for path in self.paths(|path, _| is(path)) {
            self.keep(&path);
            self.now.remove(&path);
        }
    }

    fn keep(&mut self, path: &str) {
        if !self.committed.contains_key(path) {
            self.committed.insert(path.to_owned(), self.now.get(path).cloned());
        }
    }

    /// The paths of these states.
    pub(super) fn paths(&self, is: impl Fn(&String, &State) -> bool) -> Vec<String> {
        self.now.iter().filter(|(path, state)| is(path, state)).map(|(path, _)| path.clone()).collect()
    }

    /// The paths whose states differ from what is committed, in order, with what is.
    pub fn changed(&self) -> impl Iterator<Item = (&String, Option<&State>)> {
        let changed = self.committed.iter().filter(|(path, was)| self.now.get(*path) != was.as_ref());
        changed.map(|(path, was)| (path, was.as_ref()))
    }

    /// All are committed as they are.
    pub fn commit(&mut self) {
        self.committed.clear();
    }
}

impl Deref for States {
    type Target = BTreeMap<String, State>;

    fn deref(&self) -> &Self::Target {
        &self.now
    }
}

impl PartialEq for States {
    fn eq(&self, other: &Self) -> bool {
        self.now == other.now
    }
}

impl Extend<(String, State)> for States {
    fn extend<I: IntoIterator<Item = (String, State)>>(&mut self, states: I) {
        states.into_iter().for_each(|(path, state)| *self.of(&path) = state);
    }
}

/// As they are committed.
impl FromIterator<(String, State)> for States {
    fn from_iter<I: IntoIterator<Item = (String, State)>>(states: I) -> Self {
        Self { now: states.into_iter().collect(), committed: BTreeMap::new() }
    }
}

/// What the state machine is given besides document and states.
#[derive(Debug, Clone)]
pub struct Given<'g> {
    /// The plan's input.
    pub input: &'g Value,
    /// The current time.
    pub now: DateTime<Utc>,
    /// Nothing new starts.
    pub paused: bool,
    /// The plan ends as soon as what it had started is cancelled.
    pub cancelled: bool,
    /// When the plan has to have ended.
    pub deadline: DateTime<Utc>,
    /// Whether the plan may still be changed.
    pub may_replan: bool,
    /// Maximum number of steps that run at the same time.
    pub at_once: usize,
}

/// How a plan ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum End {
    /// With its output.
    Completed {
        #[serde(default)]
        output: Value,
    },
    Failed(Failure),
    Cancelled,
    /// Everything else has settled, and the step of this path failed: the plan is to be changed.
    Replan {
        path: String,
    },
}

/// What happens next.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Advance {
    /// Paths whose work begins; a step that asks is among them. Its state says which.
    pub start: Vec<String>,
    /// Paths whose work or question is to be cancelled.
    pub cancel: Vec<String>,
    /// The next time something is due without a result.
    pub wait_until: Option<DateTime<Utc>>,
    /// `Some`: the plan has come to an end, or waits for a change.
    pub end: Option<End>,
}

/// Changes the states to what follows from them, and says what is to be done.
pub fn advance(document: &Document, states: &mut States, given: &Given<'_>) -> Advance {
    advance_from(&mut Frontier::new(document, states), document, states, given)
}

/// [`advance`], with the frontier of earlier calls for the same document. After people have repeated or skipped a step, it
/// needs a new one.
pub fn advance_from(
    frontier: &mut Frontier,
    document: &Document,
    states: &mut States,
    given: &Given<'_>,
) -> Advance {
    let mut out = Advance::default();
    let reason = match given {
        Given { cancelled: true, .. } => Some(("CANCELLED", "the plan was cancelled")),
        _ if given.deadline <= given.now => Some(("TIMEOUT", "the plan took longer than it may")),
        _ => None,
    };
    let mut machine =
        Machine { document, states, given, out: &mut out, stop: None, changed: true, running: None };
    let scope = outermost(given);
    frontier.refresh(document, machine.states);
    while machine.changed && machine.stop.is_none() && reason.is_none() {
        machine.changed = false;
        machine.outermost(frontier, &scope);
    }
    let stop = reason.map(|(code, message)| Failure::new(code, message)).or(machine.stop.take());
    if let Some(failure) = stop {
        settle_rest(document, states, &mut out);
        out.end = Some(if given.cancelled { End::Cancelled } else { End::Failed(failure) });
        return out;
    }
    if frontier.is_done() {
        out.end = Some(ending(document, states, &scope, given));
    } else if !given.paused && !states.values().any(|state| is_moving(state.status) && state.due.is_some()) {
        let mut names = Vec::new();
        blocked(&document.steps, "", states, &mut names);
        out.end = Some(End::Failed(Failure::new("DEADLOCK", names.join("; "))));
        settle_rest(document, states, &mut out);
    }
    let dues = states.values().filter(|state| is_moving(state.status)).filter_map(|state| state.due);
    out.wait_until = dues.chain([given.deadline]).min();
    out
}

pub(super) fn is_moving(status: Status) -> bool {
    matches!(status, Status::Running | Status::Retrying | Status::Asking)
}

/// Each step that has not settled although nothing runs, and what it waits for.
fn blocked(steps: &[Step], prefix: &str, states: &States, out: &mut Vec<String>) {
    for step in steps {
        let path = format!("{prefix}{}", step.id);
        let state = states.get(&path).cloned().unwrap_or_default();
        if state.status == Status::Running {
            let turns = match step.action {
                Action::Loop { .. } => {
                    (0..state.turns.len()).map(|turn| format!("{path}[{turn}].")).collect()
                }
                _ => vec![format!("{path}.")],
            };
            for turn in &turns {
                for list in step.lists() {
                    blocked(list, turn, states, out);
                }
            }
        } else if !state.status.is_settled() {
            let open = |id: &&String| !status(states, &format!("{prefix}{id}")).is_settled();
            let waits: Vec<&str> = step.after.iter().filter(open).map(String::as_str).collect();
            let waits = if waits.is_empty() { "a place to run".to_owned() } else { waits.join(", ") };
            out.push(format!("`{path}` waits for {waits}"));
        }
    }
}

pub(crate) fn status(states: &States, path: &str) -> Status {
    states.get(path).map(|state| state.status).unwrap_or_default()
}

fn settle_rest(document: &Document, states: &mut States, out: &mut Advance) {
    // What was to start in this call never does.
    let begun = std::mem::take(&mut out.start);
    for step in &document.steps {
        if !states.contains_key(&step.id) {
            states.of(&step.id);
        }
    }
    for path in states.paths(|_, state| !state.status.is_settled()) {
        let (state, new) = (states.of(&path), begun.contains(&path));
        if is_moving(state.status) && !new {
            state.status = Status::Cancelled;
            out.cancel.push(path);
        } else {
            state.attempt -= u32::from(new && state.attempt > 0);
            state.status = Status::Skipped;
            state.error = Some(Failure::new("cancelled", "the plan ended before"));
        }
        state.due = None;
    }
}

fn ending(document: &Document, states: &States, scope: &Value, given: &Given<'_>) -> End {
    let failed = document.steps.iter().find(|step| {
        step.on_error != OnError::Continue
            && states.get(&step.id).is_some_and(|state| {
                matches!(state.status, Status::Failed | Status::Cancelled) && !state.superseded
            })
    });
    if let Some(step) = failed {
        if given.may_replan && step.on_error == OnError::Replan {
            return End::Replan { path: step.id.clone() };
        }
        let error = states.get(&step.id).and_then(|state| state.error.clone());
        return End::Failed(
            error.unwrap_or_else(|| Failure::new("CANCELLED", format!("`{}` was cancelled", step.id))),
        );
    }
    let Some(output) = &document.output else { return End::Completed { output: Value::Null } };
    let all = document.steps.iter().map(|step| &step.id);
    match expression::value(output, &visible(all, "", scope, states)) {
        Ok(output) => End::Completed { output },
        Err(error) => End::Failed(Failure::new("VALIDATION_ERROR", format!("output: {error}"))),
    }
}

/// Records the result of a running step. Returns false, and changes nothing, if it does not run.
pub fn succeed(states: &mut States, path: &str, result: Value) -> bool {
    close(states, path, Status::Running, result)
}

/// Records a person's answer. Returns false, and changes nothing, if the step does not ask.
pub fn answer(states: &mut States, path: &str, result: Value) -> bool {
    close(states, path, Status::Asking, result)
}

fn close(states: &mut States, path: &str, from: Status, result: Value) -> bool {
    let Some(state) = states.get_mut(path).filter(|state| state.status == from) else { return false };
    state.status = Status::Succeeded;
    state.result = result;
    state.error = None;
    state.due = None;
    true
}

/// What a committed step of a plan's run changes in the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanChanges {
    /// The public id of the plan.
    pub plan_id: String,
    /// The agentable that it works for.
    pub parent: AgentableId,
    /// How often something other than its run had changed the plan when the run read it. If that has happened again since,
    /// the step is not committed.
    pub seen: i64,
    /// Plan steps with another state than before.
    pub steps: Vec<ChangedStep>,
    /// Calls of tools and models that begin with it.
    pub calls: u32,
    /// When the plan has to have ended, if that has changed.
    pub deadline: Option<DateTime<Utc>>,
    /// Paths of steps that are forgotten: their rows go.
    pub removed: Vec<String>,
    /// A new document, and why there is one.
    pub document: Option<(Value, String)>,
    /// What people see of the plan; `None`: nothing that they see has changed.
    pub listed: Option<Listing>,
    /// Set if the plan ends.
    pub end: Option<PlanEnd>,
}

impl PlanChanges {
    /// Whether it changes nothing but states, and what others learn of them: not the document, and no executor begins.
    pub fn is_plain(&self) -> bool {
        self.document.is_none()
            && self.removed.is_empty()
            && self.steps.iter().all(|step| step.executor.is_none())
    }
}

/// A plan step with a new state.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedStep {
    /// Its path.
    pub path: String,
    /// Its state.
    pub state: State,
    /// The executor that begins to work on it.
    pub executor: Option<NewTask>,
    /// The question that it asks.
    pub question: Option<QuestionId>,
}

/// What people see of a plan after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The whole list of steps.
    pub checklist: Arc<Checklist>,
    /// How it differs from the list before, as a JSON Patch; empty: it has other steps.
    pub delta: Vec<Value>,
    /// Set if the document was replaced: its number, and why.
    pub changed: Option<(i32, String)>,
}

/// The end of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEnd {
    /// The result.
    pub output: Value,
    /// What the agent reads that the plan works for.
    pub report: String,
    /// The whole list of steps.
    pub checklist: Value,
}

/// Codes of failures after which the same may succeed: those of tools, and those of models.
const RETRYABLE: [&str; 4] = ["TIMEOUT", "IO_ERROR", "RATE_LIMITED", "NETWORK_ERROR"];

/// Maximum delay before a repetition, in ms.
const MAX_MS: u64 = 60_000;

impl Retry {
    /// What a model, an executor, or a tool without an effect is repeated.
    pub const TWICE: Self = Self { max: 2, base_ms: 1_000 };
}

/// Records the failure of a running step: it is repeated, or has failed. `jitter` is a random number from 0 to 1. A tool is
/// not repeated unless its step says so: what acted outside Houston may have succeeded, and its class is not in the document.
/// Returns false, and changes nothing, if it does not run.
pub fn fail(
    step: &Step,
    states: &mut States,
    path: &str,
    error: Failure,
    now: DateTime<Utc>,
    jitter: f64,
) -> bool {
    let Some(state) = states.get_mut(path).filter(|state| state.status == Status::Running) else {
        return false;
    };
    let unless_said = (!matches!(step.action, Action::Tool { .. })).then_some(Retry::TWICE);
    let retry = step.retry.or(unless_said).filter(|retry| state.attempt <= retry.max);
    state.due = None;
    state.status = Status::Failed;
    if let Some(retry) = retry.filter(|_| RETRYABLE.contains(&error.code.as_str())) {
        let doubled = retry.base_ms.saturating_mul(1 << state.attempt.saturating_sub(1).min(6));
        let ms = doubled.min(MAX_MS) as f64 * jitter.clamp(0.0, 1.0);
        state.due = Some(now + TimeDelta::milliseconds(ms as i64));
        state.status = Status::Retrying;
    }
    state.error = Some(error);
    true
}
