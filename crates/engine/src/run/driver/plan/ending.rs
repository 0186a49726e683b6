//! The ends of plans.

use std::ops::ControlFlow;

use houston_domain::error_message::user_text;
use houston_domain::plan::{Action, End, Failure, PlanEnd, Retry, Status, answer, ended, fail};
use houston_domain::question::{Question, QuestionState};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::ToolResponse;
use houston_store::plan::ExecutorOutcome;
use serde_json::{Value, json};

use super::Works;
use super::graph::Graph;
use crate::error::Interrupted;
use crate::run::driver::{self, Flow, RunDriver};
use crate::run::journal::add_message;
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;
use crate::run::tool_runner::value_of;
use crate::setup::guards::shown;

impl<S: RunStorage> RunDriver<'_, S> {
    /// Ends the plan. Continues if its run does, because something arrived.
    pub(super) async fn end_plan(&mut self, graph: &mut Graph, works: &mut Works, end: End) -> Flow {
        let end = match end {
            End::Replan { path } => {
                if graph.begun.planned.is_none() {
                    // People see that the step has failed before a model is asked, which may take a minute.
                    self.commit_graph(graph, None).await?;
                }
                match self.replan(graph, &path).await? {
                    Ok(None) | Err(Stop::Cancelled) => return Ok(ControlFlow::Continue(())),
                    Ok(Some(failure)) => End::Failed(failure),
                    Err(Stop::Drained) => {
                        works.abort_all();
                        return self.hand_over().await;
                    }
                    Err(Stop::OutOfTime) => {
                        return self.stop_plan(graph, works, RunStatus::MaxDuration).await;
                    }
                }
            }
            end => end,
        };
        works.settle();
        let (failed, output) = match &end {
            End::Completed { output } => (None, output.clone()),
            End::Failed(failure) => (Some(failure.clone()), Value::Null),
            End::Cancelled | End::Replan { .. } => {
                self.close_graph(graph, &end);
                return self.cancel().await;
            }
        };
        let status = if failed.is_some() { "failed" } else { "completed" };
        let mut step = self.plan_commit(graph);
        let plan_end = self.plan_end(graph, &end, status, output.clone());
        if let Some(changes) = self.journal.plan.as_mut() {
            changes.end = Some(plan_end);
            changes.listed = None;
        }
        if let Some(Failure { code, message }) = failed {
            return self.terminate(step, &code, user_text(&code), message).await;
        }
        let text = match output {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        if !text.is_empty() {
            let inert = self.tools.taint.must_be_inert();
            let text = if inert { shown(&text, &self.setup.guards) } else { text };
            add_message(&mut step, self.journal.new_id(), text, self.label());
        }
        step.transition = self.completed(RunStatus::Completed, None);
        let done = self.commit(step).await?;
        graph.commit();
        graph.begun.committed();
        self.void_written().await?;
        if done.continued { Ok(ControlFlow::Continue(())) } else { driver::ended(RunStatus::Completed) }
    }

    /// Ends the plan because its run was cancelled, or has no time left.
    pub(super) async fn stop_plan(
        &mut self,
        graph: &mut Graph,
        works: &mut Works,
        status: RunStatus,
    ) -> Flow {
        // Tools are asked to stop by the same token.
        self.journal.signals.cancel().cancel();
        works.abort_all();
        loop {
            let advance = graph.give_up(self.journal.now());
            let executors: Vec<_> = advance.cancel.iter().filter_map(|path| graph.executor(path)).collect();
            self.cancel_executors(&executors).await?;
            let ended = if status == RunStatus::Cancelled {
                self.close_graph(graph, &End::Cancelled);
                self.cancel().await
            } else {
                let failure = Failure::new("TIMEOUT", "the plan took longer than it may");
                self.close_graph(graph, &End::Failed(failure));
                self.end(status).await
            };
            match ended {
                Err(Interrupted::PlanChanged) => {}
                ended => {
                    self.void_written().await?;
                    return ended;
                }
            }
            match self.load_graph().await? {
                Ok(read) => *graph = read,
                Err((code, text)) => return self.stop_with(code, text).await,
            }
        }
    }

    /// The next step, whatever it is, writes that the plan has ended.
    pub(super) fn close_graph(&mut self, graph: &mut Graph, end: &End) {
        let status = if *end == End::Cancelled { "cancelled" } else { "failed" };
        graph.begun = std::mem::take(&mut graph.begun).undone();
        let (mut changes, _) = graph.changes_with();
        changes.listed = None;
        changes.end = Some(self.plan_end(graph, end, status, Value::Null));
        self.journal.plan = Some(Box::new(changes));
    }

    fn plan_end(&self, graph: &Graph, end: &End, status: &str, output: Value) -> PlanEnd {
        let list = graph.last_list(status);
        let report = ended(&list, &graph.states, end, self.tools.taint.untrusted);
        PlanEnd { output, report, checklist: json!(list) }
    }
}

pub(super) fn failure_of(graph: &Graph, path: &str) -> Failure {
    let error = graph.states.get(path).and_then(|state| state.error.clone());
    error.unwrap_or_else(|| Failure::new("STEP_FAILED", format!("`{path}` failed")))
}

/// A call of a tool or a model that has finished.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    pub(super) path: String,
    pub(super) attempt: u32,
    pub(super) returned: Returned,
}

#[derive(Debug, Clone)]
pub(super) enum Returned {
    Tool(ToolResponse),
    Llm(Result<Value, Failure>),
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// Records what a call has returned. What comes too late is not kept.
    pub(super) fn record_finished(&mut self, graph: &mut Graph, finished: Finished) {
        let is_expected = graph
            .states
            .get(&finished.path)
            .is_some_and(|state| state.status == Status::Running && state.attempt == finished.attempt);
        if !is_expected {
            return;
        }
        graph.begun.results.push(finished.clone());
        match finished.returned {
            Returned::Tool(response) => self.record_response(graph, &finished.path, response),
            Returned::Llm(result) => self.record_result(graph, &finished.path, result),
        }
    }

    /// Records the response of a tool.
    pub(super) fn record_response(&mut self, graph: &mut Graph, path: &str, response: ToolResponse) {
        let result = match self.tools.step_response(&self.journal, response) {
            ToolResponse::Success { observation } => Ok(value_of(observation)),
            ToolResponse::Failure { error, .. } if error == ToolResponse::outcome_unknown().text() => {
                Err(Failure::new("OUTCOME_UNKNOWN", error))
            }
            ToolResponse::Failure { error, code } => Err(Failure::new(code.as_str(), error)),
        };
        self.record_result(graph, path, result);
    }

    fn record_result(&self, graph: &mut Graph, path: &str, result: Result<Value, Failure>) {
        match result {
            Ok(value) => graph.succeed(path, value),
            Err(failure) => self.record_failure(graph, path, failure),
        }
    }

    /// Records that a step failed: it is repeated, or has failed.
    pub(super) fn record_failure(&self, graph: &mut Graph, path: &str, failure: Failure) {
        let Some(mut step) = graph.step(path).cloned() else { return };
        if let Action::Tool { tool, .. } = &step.action
            && self.tools.is_retried(tool)
        {
            step.retry.get_or_insert(Retry::TWICE);
        }
        let jitter = self.journal.services.random_fraction();
        fail(&step, &mut graph.states, path, failure, self.journal.now(), jitter);
    }

    /// Records what an executor has returned. One that `is_overdue` is cancelled before a commit says so, and may have ended by
    /// then.
    pub(super) fn record_outcome(
        &mut self,
        graph: &mut Graph,
        path: &str,
        outcome: ExecutorOutcome,
        is_overdue: bool,
    ) {
        if outcome.untrusted {
            self.tools.taint.untrusted = true;
        }
        if let Some((code, message)) = outcome.error {
            let failure = if is_overdue && code == "CANCELLED" {
                Failure::new("TIMEOUT", "took longer than it may")
            } else {
                Failure { code, message }
            };
            return self.record_failure(graph, path, failure);
        }
        let result = match graph.step(path).map(|step| &step.action) {
            Some(Action::Task { schema: Some(schema), .. }) => matching(&outcome.text, schema),
            _ => Ok(Value::String(outcome.text)),
        };
        self.record_result(graph, path, result);
    }

    /// Records that a question was closed. Returns whether a person has decided about a call, which goes on then.
    pub(super) fn record_answer(&self, graph: &mut Graph, path: &str, question: &Question) -> bool {
        if question.state == QuestionState::Open || graph.status(path) != Status::Asking {
            return false;
        }
        let is_call = graph.step(path).is_some_and(|step| matches!(step.action, Action::Tool { .. }));
        match question.outcome().cloned() {
            Some(_) if is_call => return true,
            Some(value) => {
                answer(&mut graph.states, path, value);
            }
            None => {
                let failure = Failure::new("TIMEOUT", "there was no answer in time");
                if let Some(state) = graph.states.get_mut(path) {
                    (state.status, state.error, state.due) = (Status::Failed, Some(failure), None);
                }
            }
        }
        false
    }
}

/// The JSON in a text, if it matches the schema.
fn matching(text: &str, schema: &Value) -> Result<Value, Failure> {
    let failure = |message: String| Failure::new("VALIDATION_ERROR", message);
    let trimmed = text.trim().trim_start_matches("```json").trim_matches('`').trim();
    let value: Value =
        serde_json::from_str(trimmed).map_err(|error| failure(format!("the result is not JSON: {error}")))?;
    match houston_domain::question::schema::check(schema, &value) {
        Ok(()) => Ok(value),
        Err(error) => {
            Err(failure(format!("the result does not match its schema: {}: {}", error.pointer, error.reason)))
        }
    }
}
