//! [`Graph`]: a plan in memory, and how it differs from what is committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, QuestionId, TenantId};
use houston_domain::plan::{
    Action, Advance, ChangedStep, Checklist, Document, Failure, Frontier, Given, Heading, Limits, Listing,
    MAX_STEPS, Offer, PlanChanges, Shown, State, States, Status, Step, advance, advance_from, all_plain,
    checklist, deadline, held_up, kept, listed, overdue_tasks, put_off, resolve, size, step, succeed,
    waits_until,
};
use houston_store::plan::{DrivenPlan, ExecutorOutcome, StoredStep};
use serde_json::Value;

use super::start::Begun;
use crate::error::{Interrupted, Result};

/// A plan with the states of its steps.
pub(super) struct Graph {
    plan_id: String,
    pub(super) stored: DrivenPlan,
    pub(super) document: Arc<Document>,
    pub(super) states: States,
    /// What a walk over the steps looks at; `None`: not known yet.
    frontier: Option<Frontier>,
    /// Until when the plan waits, as it is committed.
    waited: Option<DateTime<Utc>>,
    executors: BTreeMap<String, AgentableId>,
    pub(super) questions: BTreeMap<String, QuestionId>,
    /// The list of steps that people see, and how it differs from what the stream of the parent has.
    shown: Shown,
    shown_changes: Vec<Value>,
    /// What executors have returned that no commit has taken over.
    pub(super) outcomes: Vec<(String, ExecutorOutcome)>,
    /// When the plan was looked at last.
    now: DateTime<Utc>,
    /// Whether its deadline was put off since the last commit.
    was_put_off: bool,
    /// Calls of tools and models since the last commit.
    pub(super) calls: u32,
    /// The document was replaced since the last commit, for this reason.
    replaced: Option<String>,
    pub(super) limits: Limits,
    /// Whether a model can be asked to change it.
    has_planner: bool,
    /// Whether all its expressions are plain, so that evaluating them holds no thread.
    is_plain: bool,
    /// Whether none of its steps has steps of its own.
    is_flat: bool,
    /// Whether it has few steps, so that walking over them holds no thread.
    is_small: bool,
    /// Size of all results.
    results: usize,
    /// What begins with the next commit, and what was done since the last one.
    pub(super) begun: Begun,
    /// Status and attempt of steps as their events since the last commit say.
    noted: BTreeMap<String, (Status, u32)>,
    /// What has happened to steps since the last commit, for the stream of the plan.
    events: Vec<Event>,
}

impl Graph {
    /// The plan as it is stored; `json`: its document.
    ///
    /// # Errors
    /// Its document is not one, for operators.
    pub(super) fn new(
        plan_id: String,
        mut stored: DrivenPlan,
        json: &str,
        (limits, has_planner): (Limits, bool),
    ) -> Result<Self, String> {
        let names = names(&stored.document);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let offer = Offer { tools: &names, steps: MAX_STEPS };
        let document = Document::parse(json, offer).map_err(|problems| {
            problems
                .iter()
                .map(|problem| format!("{}: {}", problem.pointer, problem.message))
                .collect::<Vec<_>>()
                .join("; ")
        })?;
        let (mut states, mut executors) = (BTreeMap::new(), BTreeMap::new());
        let (mut questions, mut outcomes) = (BTreeMap::new(), Vec::new());
        for StoredStep { path, state, task_id: task, outcome, question } in
            std::mem::take(&mut stored.steps.0)
        {
            executors.extend(task.map(|task| (path.clone(), task)));
            questions.extend(question.map(|question| (path.clone(), question)));
            outcomes.extend(outcome.map(|outcome| (path.clone(), outcome)));
            states.insert(path, state);
        }
        let states = States::from_iter(states);
        let results = states.values().map(|state| size(&state.result)).sum();
        let shown = Shown::new(&document, &states, heading(&plan_id, &stored, &open(&questions, &states)));
        Ok(Self {
            plan_id,
            is_plain: all_plain(&stored.document),
            is_flat: is_flat(&document),
            is_small: is_small(&document),
            stored,
            document: Arc::new(document),
            frontier: None,
            waited: waits_until(&states),
            states,
            executors,
            questions,
            shown,
            shown_changes: Vec::new(),
            outcomes,
            now: DateTime::UNIX_EPOCH,
            was_put_off: false,
            calls: 0,
            replaced: None,
            limits,
            has_planner,
            results,
            begun: Begun::default(),
            noted: BTreeMap::new(),
            events: Vec::new(),
        })
    }

    /// When the plan has to have ended, with what has changed since the last commit.
    fn deadline(&self) -> DateTime<Utc> {
        deadline(self.waited, self.stored.deadline, waits_until(&self.states), self.now)
    }

    /// The next time something is due without a result.
    pub(super) fn next_due(&self) -> Option<DateTime<Utc>> {
        self.states.values().filter_map(|state| state.due).chain([self.deadline()]).min()
    }

    /// Gives the plan the time in which nobody took it, before it was claimed at `claimed`. Returns whether there was such a time.
    pub(super) fn make_up(&mut self, claimed: DateTime<Utc>) -> bool {
        self.now = claimed;
        let queued_at = self.states.is_empty().then_some(self.stored.created_at);
        let late = held_up(&self.states, self.stored.deadline, queued_at, claimed);
        if late > TimeDelta::zero() {
            put_off(&mut self.states, late);
            self.stored.deadline += late;
            self.was_put_off = true;
        }
        late > TimeDelta::zero()
    }

    /// The executors that have no time left, with the paths of their steps.
    pub(super) fn overdue_executors(&mut self, now: DateTime<Utc>) -> Vec<(String, AgentableId)> {
        self.now = now;
        let paths = overdue_tasks(&self.document, &self.states, self.deadline(), now);
        paths.into_iter().filter_map(|path| self.executor(&path).map(|executor| (path, executor))).collect()
    }

    /// Gives the step of an executor that waited, for a person or for a worker, its time again.
    pub(super) fn spare(&mut self, path: &str) {
        let seconds = self.step(path).and_then(|step| step.timeout_s).unwrap_or(60);
        let due = self.now + TimeDelta::seconds(seconds.into());
        if let Some(state) = self.states.get_mut(path) {
            state.due = Some(due);
        }
        if self.stored.deadline < due {
            self.stored.deadline = due;
            self.was_put_off = true;
        }
    }

    /// Lets begin and settle what can.
    ///
    /// # Errors
    /// The process ends.
    pub(super) async fn advance(&mut self, tenant: TenantId, now: DateTime<Utc>) -> Result<Advance> {
        self.now = now;
        self.note();
        let situation = self.situation(false);
        let is_small = match &mut self.frontier {
            Some(frontier) if self.is_flat => {
                frontier.refresh(&self.document, &self.states);
                frontier.width() <= SMALL
            }
            _ => self.is_small && self.states.len() <= SMALL,
        };
        let known = self.frontier.take();
        let advance = self.computed(tenant, self.is_plain && is_small, move |document, states, input| {
            let mut frontier = known.unwrap_or_else(|| Frontier::new(document, states));
            (advance_from(&mut frontier, document, states, &situation(input)), frontier)
        });
        let (advance, frontier) = advance.await?;
        self.frontier = Some(frontier);
        self.note();
        Ok(advance)
    }

    /// What `work` makes of the document, the states and the input: off the threads of the runtime, unless it `is_light`.
    ///
    /// # Errors
    /// The process ends.
    async fn computed<T: Send + 'static>(
        &mut self,
        tenant: TenantId,
        is_light: bool,
        work: impl FnOnce(&Document, &mut States, &Value) -> T + Send + 'static,
    ) -> Result<T> {
        if is_light {
            return Ok(work(&self.document, &mut self.states, &self.stored.input));
        }
        let (document, input) = (Arc::clone(&self.document), self.stored.input.clone());
        let mut states = std::mem::take(&mut self.states);
        let computed =
            houston_meter::compute(tenant.0, move || (work(&document, &mut states, &input), states));
        let (made, states) = computed.await.map_err(|_| Interrupted::Lost)?;
        self.states = states;
        Ok(made)
    }

    /// Settles all steps, because the plan is given up. Nothing is evaluated.
    pub(super) fn give_up(&mut self, now: DateTime<Utc>) -> Advance {
        self.now = now;
        let situation = self.situation(true);
        advance(&self.document, &mut self.states, &situation(&self.stored.input))
    }

    /// What decides how the plan goes on, besides its document, its states and its input.
    fn situation(&self, cancelled: bool) -> impl Fn(&Value) -> Given<'_> + Send + use<> {
        let (now, paused, deadline) = (self.now, self.stored.paused, self.deadline());
        let most = i32::try_from(self.limits.replans).unwrap_or(0);
        let may_replan = self.has_planner && self.stored.replans < most;
        let at_once = self.limits.at_once + self.limits.executors;
        move |input| Given { input, now, paused, cancelled, deadline, may_replan, at_once }
    }

    /// What the step of a path executes.
    ///
    /// # Errors
    /// The process ends.
    pub(super) async fn resolve(
        &mut self,
        tenant: TenantId,
        now: DateTime<Utc>,
        path: &str,
    ) -> Result<Result<Action, Failure>> {
        let path = path.to_owned();
        self.computed(tenant, self.is_plain, move |document, states, input| {
            resolve(document, states, input, now, &path)
        })
        .await
    }

    pub(super) fn step(&self, path: &str) -> Option<&Step> {
        step(&self.document, path)
    }

    pub(super) fn status(&self, path: &str) -> Status {
        self.states.get(path).map(|state| state.status).unwrap_or_default()
    }

    pub(super) fn attempt(&self, path: &str) -> u32 {
        self.states.get(path).map_or(1, |state| state.attempt)
    }

    pub(super) fn executor(&self, path: &str) -> Option<AgentableId> {
        self.executors.get(path).copied()
    }

    pub(super) fn question(&self, path: &str) -> Option<QuestionId> {
        self.questions.get(path).copied()
    }

    /// The path of the step that asks this question.
    pub(super) fn path_of(&self, question: QuestionId) -> Option<String> {
        self.questions.iter().find(|(_, of)| **of == question).map(|(path, _)| path.clone())
    }

    /// The step of this path has succeeded.
    pub(super) fn succeed(&mut self, path: &str, result: Value) {
        let (result, size) = kept(result, self.results);
        self.results += size;
        succeed(&mut self.states, path, result);
    }

    /// Steps that run in a process: their paths and attempts.
    pub(super) fn running_here(&self) -> Vec<(String, u32)> {
        let running = self.states.iter().filter(|(path, state)| {
            let action = || self.step(path).map(|step| &step.action);
            state.status == Status::Running
                && matches!(action(), Some(Action::Tool { .. } | Action::Llm { .. }))
        });
        running.map(|(path, state)| (path.clone(), state.attempt)).collect()
    }

    /// The questions that the plan waits for.
    pub(super) fn open_questions(&self) -> Vec<QuestionId> {
        let is_asking = |(path, _): &(&String, &QuestionId)| self.status(path) == Status::Asking;
        self.questions.iter().filter(is_asking).map(|(_, question)| *question).collect()
    }

    /// Whether a step waits for something else than work here.
    pub(super) fn waits_for_others(&self) -> bool {
        self.states.iter().any(|(path, state)| match state.status {
            Status::Asking => true,
            Status::Running => self.step(path).is_some_and(|step| matches!(step.action, Action::Task { .. })),
            _ => false,
        })
    }

    pub(super) fn has_changed(&self) -> bool {
        self.states.changed().next().is_some() || self.replaced.is_some() || self.was_put_off
    }

    /// What differs from what is committed, and the events that say so.
    pub(super) fn changes_with(&mut self) -> (PlanChanges, Vec<Event>) {
        self.note();
        self.show();
        let Begun { executors, questions, .. } = &self.begun;
        let (mut steps, mut removed) = (Vec::new(), Vec::new());
        for (path, _) in self.states.changed() {
            match self.states.get(path) {
                Some(state) => steps.push(ChangedStep {
                    path: path.clone(),
                    state: state.clone(),
                    executor: executors.get(path).cloned(),
                    question: questions.iter().find(|(of, _)| of == path).map(|(_, question)| question.id),
                }),
                None => removed.push(path.clone()),
            }
        }
        let replaced = self.replaced.clone();
        let has_news = replaced.is_some() || !self.shown_changes.is_empty();
        let version = self.stored.version.saturating_add(1);
        let listed = has_news.then(|| Listing {
            checklist: Arc::clone(&self.shown.list),
            delta: replaced.as_ref().map_or_else(|| self.shown_changes.clone(), |_| Vec::new()),
            changed: replaced.clone().map(|reason| (version, reason)),
        });
        let document = replaced.map(|reason| (self.stored.document.clone(), reason));
        let holds = self.deadline();
        let deadline = (self.was_put_off || holds != self.stored.deadline).then_some(holds);
        let mut events = self.events.clone();
        for event in &mut events {
            if let Event::PlanStepStarted { path, task_id, .. } = event {
                *task_id = executors.get(path).map(|executor| executor.id.public_id(&executor.kind));
            }
        }
        let changes = PlanChanges {
            plan_id: self.plan_id.clone(),
            parent: self.stored.parent,
            seen: self.stored.changes,
            steps,
            removed,
            calls: self.calls,
            deadline,
            document,
            listed,
            end: None,
        };
        (changes, events)
    }

    /// Replaces the document, because steps have failed.
    pub(super) fn replace(&mut self, json: Value, document: Document, states: States, reason: String) {
        self.is_plain = all_plain(&json);
        self.is_flat = is_flat(&document);
        self.is_small = is_small(&document);
        (self.stored.document, self.document, self.states) = (json, Arc::new(document), states);
        let gone = self.states.changed().filter(|(path, _)| !self.states.contains_key(*path));
        self.noted.extend(gone.map(|(path, _)| (path.clone(), (Status::Pending, 0))));
        (self.frontier, self.replaced) = (None, Some(reason));
    }

    /// Calls of tools and models that are allowed in all.
    pub(super) fn max_calls(&self) -> u32 {
        self.limits.tool_calls.saturating_add(self.limits.model_calls)
    }

    /// Whether it has made all calls that are allowed.
    pub(super) fn is_used_up(&self) -> bool {
        let made = u32::try_from(self.stored.calls).unwrap_or(u32::MAX).saturating_add(self.calls);
        made >= self.max_calls()
    }

    /// The list at the end of the plan.
    pub(super) fn last_list(&self, status: &str) -> Checklist {
        let questions = open(&self.questions, &self.states);
        let heading = Heading { status, ..heading(&self.plan_id, &self.stored, &questions) };
        checklist(&self.document, &self.states, heading)
    }

    /// Brings the list that people see up to date.
    fn show(&mut self) {
        let questions = open(&self.questions, &self.states);
        let heading = heading(&self.plan_id, &self.stored, &questions);
        if self.replaced.is_some() {
            let heading = Heading { version: heading.version.saturating_add(1), ..heading };
            self.shown = Shown::new(&self.document, &self.states, heading);
            return;
        }
        let changed = self.states.changed().map(|(path, _)| path.as_str());
        self.shown_changes.extend(self.shown.follow(&self.document, &self.states, heading, changed));
    }

    /// What has changed is committed.
    pub(super) fn commit(&mut self) {
        self.events.clear();
        self.executors
            .extend(self.begun.executors.iter().map(|(path, executor)| (path.clone(), executor.id)));
        (self.stored.deadline, self.was_put_off) = (self.deadline(), false);
        self.waited = waits_until(&self.states);
        self.states.commit();
        self.noted.clear();
        self.shown_changes.clear();
        self.stored.calls = self.stored.calls.saturating_add(i32::try_from(self.calls).unwrap_or(i32::MAX));
        self.calls = 0;
        if self.replaced.take().is_some() {
            self.stored.version += 1;
            self.stored.replans += 1;
        }
    }

    /// Notes what has happened to steps since the last time: what has settled, then what has begun.
    fn note(&mut self) {
        let (mut begun, mut settled) = (Vec::new(), Vec::new());
        let of = |state: Option<&State>| state.map(|state| (state.status, state.attempt)).unwrap_or_default();
        for (path, committed) in self.states.changed() {
            let Some(state) = self.states.get(path) else { continue };
            let is = (state.status, state.attempt);
            let was = self.noted.get(path).copied().unwrap_or_else(|| of(committed));
            if is == was {
                continue;
            }
            let Some(step) = step(&self.document, path) else { continue };
            self.noted.insert(path.clone(), is);
            if state.attempt > was.1 {
                begun.push(Event::PlanStepStarted {
                    path: path.clone(),
                    title: step.title.clone(),
                    step: step.action.kind().to_owned(),
                    attempt: state.attempt,
                    task_id: None,
                });
            }
            let to = if state.attempt > was.1 { &mut begun } else { &mut settled };
            to.extend(settled_event(path, state));
        }
        // What a step contains settles before it.
        self.events.extend(settled.into_iter().rev());
        self.events.append(&mut begun);
    }
}

fn heading<'h>(
    plan_id: &'h str,
    stored: &DrivenPlan,
    questions: &'h BTreeMap<String, String>,
) -> Heading<'h> {
    let status = if stored.paused { "paused" } else { "running" };
    let version = u32::try_from(stored.version).unwrap_or_default();
    Heading { plan_id: Some(plan_id), version, status, questions }
}

/// The public ids of the questions that wait for an answer, by the paths of their steps.
fn open(questions: &BTreeMap<String, QuestionId>, states: &States) -> BTreeMap<String, String> {
    let is_asking = |path: &str| states.get(path).is_some_and(|state| state.status == Status::Asking);
    let open = questions.iter().filter(|(path, _)| is_asking(path));
    open.map(|(path, question)| (path.clone(), question.to_string())).collect()
}

/// What the stream of a plan says of a step that has settled, or is repeated.
fn settled_event(path: &str, state: &State) -> Option<Event> {
    let path = path.to_owned();
    match state.status {
        Status::Failed | Status::Retrying => {
            let Failure { code, message } = state.error.clone()?;
            let retry_at = state.due.filter(|_| state.status == Status::Retrying);
            Some(Event::PlanStepFailed { path, code, message, retry_at })
        }
        status if status.is_settled() => {
            Some(Event::PlanStepFinished { path, status: status.as_str().to_owned() })
        }
        _ => None,
    }
}

/// Steps that are walked over on a thread of the runtime: a tenth of a millisecond each time.
const SMALL: usize = 200;

fn is_small(document: &Document) -> bool {
    listed(document, |_| 1).len() <= SMALL
}

fn is_flat(document: &Document) -> bool {
    document.steps.iter().all(|step| step.lists().is_empty())
}

/// The names of tools in a document: that they are offered was checked when the plan was made.
fn names(document: &Value) -> Vec<String> {
    let mut names = Vec::new();
    let mut open = vec![document];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                names.extend(fields.get("tool").and_then(Value::as_str).map(str::to_owned));
                let tools = fields.get("tools").and_then(Value::as_array).into_iter().flatten();
                names.extend(tools.filter_map(Value::as_str).map(str::to_owned));
                open.extend(fields.values());
            }
            _ => {}
        }
    }
    names
}
