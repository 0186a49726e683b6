//! What the stream of a goal says of a plan: its events, from the lines of a trace.

use std::collections::BTreeMap;

use houston_domain::event::Event;
use houston_domain::plan::{
    Checklist, Document, End, Failure, Given, Heading, MAX_STEPS, Offer, Shown, State, States, Status,
    advance, answer, checklist, fail, step, succeed,
};
use houston_domain::run::RunStatus;
use houston_domain::trace::Line;
use houston_domain::trace::plan::{Outcome, Version};
use serde_json::json;

static NO_QUESTIONS: BTreeMap<String, String> = BTreeMap::new();

/// A plan as far as the lines have brought it.
pub(crate) struct PlanEvents {
    plan_id: String,
    plan: Option<(Document, Version)>,
    states: States,
    shown: Option<Shown>,
}

impl PlanEvents {
    pub(crate) fn new(plan_id: String) -> Self {
        Self { plan_id, plan: None, states: States::new(), shown: None }
    }

    /// The events of one more line, as a worker commits them.
    pub(crate) fn after(&mut self, line: &Line) -> Vec<Event> {
        self.states.commit();
        let before = self.states.clone();
        match line {
            Line::Plan(version) => return vec![self.begin(version)],
            Line::Step(report) => {
                let document = &self.plan.as_ref().unwrap().0;
                let (path, states) = (&report.path, &mut self.states);
                let taken = match report.outcome.clone() {
                    Outcome::Succeeded { result } => succeed(states, path, result),
                    Outcome::Answered { result } => answer(states, path, result),
                    Outcome::Failed { code, message, .. } => {
                        let error = Failure { code, message };
                        fail(step(document, path).unwrap(), states, path, error, report.at, 0.5)
                    }
                };
                assert!(taken, "{path}");
            }
            Line::Advance(advanced) => {
                let (document, version) = self.plan.as_ref().unwrap();
                let given = Given {
                    input: &version.input,
                    now: advanced.at,
                    paused: advanced.paused,
                    cancelled: advanced.cancelled,
                    deadline: version.deadline,
                    may_replan: version.may_replan,
                    at_once: version.at_once,
                };
                advance(document, &mut self.states, &given);
            }
            other => panic!("{other:?}"),
        }
        let changed =
            self.states.iter().filter_map(|(path, state)| self.event(path, state, before.get(path)));
        let mut events: Vec<Event> = changed.collect();
        events.extend(self.progress());
        if let Line::Advance(advanced) = line {
            events.extend(advanced.end.as_ref().and_then(|end| self.end(end)));
        }
        events
    }

    fn heading<'h>(&'h self, status: &'h str) -> Heading<'h> {
        let version = self.plan.as_ref().unwrap().1.version;
        Heading { plan_id: Some(&self.plan_id), version, status, questions: &NO_QUESTIONS }
    }

    fn list(&self, status: &str) -> Checklist {
        checklist(&self.plan.as_ref().unwrap().0, &self.states, self.heading(status))
    }

    fn begin(&mut self, version: &Version) -> Event {
        let tools: Vec<&str> = version.tools.iter().map(String::as_str).collect();
        let offer = Offer { tools: &tools, steps: MAX_STEPS };
        let document = Document::parse(&version.document.to_string(), offer).unwrap();
        self.states.forget(|path| version.forgotten.iter().any(|of| of == path));
        let goal = document.goal.clone();
        self.plan = Some((document, version.clone()));
        let shown = Shown::new(&self.plan.as_ref().unwrap().0, &self.states, self.heading("running"));
        let (plan_id, checklist) = (self.plan_id.clone(), json!(*shown.list));
        match self.shown.replace(shown) {
            None => Event::PlanCreated { plan_id, goal, checklist },
            Some(_) => {
                let (version, reason) = (i32::try_from(version.version).unwrap(), "a step failed".to_owned());
                Event::PlanChanged { plan_id, version, reason, checklist }
            }
        }
    }

    fn event(&self, path: &str, state: &State, was: Option<&State>) -> Option<Event> {
        let was = was.cloned().unwrap_or_default();
        let step = step(&self.plan.as_ref()?.0, path)?;
        let path = path.to_owned();
        match state.status {
            Status::Running | Status::Asking if state.attempt != was.attempt => {
                Some(Event::PlanStepStarted {
                    path,
                    title: step.title.clone(),
                    step: step.action.kind().to_owned(),
                    attempt: state.attempt,
                    task_id: None,
                })
            }
            Status::Failed | Status::Retrying if state.status != was.status => {
                let Failure { code, message } = state.error.clone()?;
                let retry_at = state.due.filter(|_| state.status == Status::Retrying);
                Some(Event::PlanStepFailed { path, code, message, retry_at })
            }
            status if status.is_settled() && status != was.status => {
                Some(Event::PlanStepFinished { path, status: status.as_str().to_owned() })
            }
            _ => None,
        }
    }

    fn progress(&mut self) -> Option<Event> {
        let mut shown = self.shown.take()?;
        let changed = self.states.changed().map(|(path, _)| path.as_str());
        let document = &self.plan.as_ref().unwrap().0;
        let delta = shown.follow(document, &self.states, self.heading("running"), changed);
        self.shown = Some(shown);
        let plan_id = self.plan_id.clone();
        (!delta.is_empty()).then_some(Event::PlanProgress { plan_id, delta, checklist: None })
    }

    fn end(&self, end: &End) -> Option<Event> {
        let (status, code, message) = match end {
            End::Completed { .. } => (RunStatus::Completed, None, None),
            End::Failed(Failure { code, message }) => {
                (RunStatus::Failed, Some(code.clone()), Some(message.clone()))
            }
            End::Cancelled => (RunStatus::Cancelled, None, None),
            // It goes on with another document.
            End::Replan { .. } => return None,
        };
        let (plan_id, checklist) = (self.plan_id.clone(), json!(self.list(status.as_str())));
        Some(Event::PlanEnded { plan_id, status, code, message, checklist })
    }
}
