//! What calls of steps, executors and people have returned, as results of their steps.

use houston_domain::plan::{Action, Failure, Retry, Status, answer, fail, succeed};
use houston_domain::question::{Question, QuestionState};
use houston_domain::tool_call::ToolResponse;
use houston_store::plan::ExecutorOutcome;
use serde_json::Value;

use super::begun::Begun;
use super::graph::Graph;
use crate::run::driver::RunDriver;
use crate::run::storage::RunStorage;

/// Repetitions of a read or idempotent call, unless its step says otherwise.
const RETRY: Retry = Retry { max: 2, base_ms: 1_000 };

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
    pub(super) fn record_finished(&mut self, graph: &mut Graph, begun: &mut Begun, finished: Finished) {
        let Finished { path, attempt, returned } = finished;
        let is_expected = graph
            .states
            .get(&path)
            .is_some_and(|state| state.status == Status::Running && state.attempt == attempt);
        if !is_expected {
            return;
        }
        let result = Finished { path: path.clone(), attempt, returned: returned.clone() };
        begun.results.push(result);
        match returned {
            Returned::Tool(response) => self.record_response(graph, &path, response),
            Returned::Llm(Ok(value)) => {
                succeed(&mut graph.states, &path, value);
            }
            Returned::Llm(Err(failure)) => self.record_failure(graph, &path, failure),
        }
    }

    /// Records the response of a tool.
    pub(super) fn record_response(&mut self, graph: &mut Graph, path: &str, response: ToolResponse) {
        match self.tools.step_response(&self.journal, response) {
            ToolResponse::Success { observation } => {
                succeed(&mut graph.states, path, value_of(observation));
            }
            ToolResponse::Failure { error, .. } if error == ToolResponse::outcome_unknown().text() => {
                self.record_failure(
                    graph,
                    path,
                    Failure { code: "OUTCOME_UNKNOWN".to_owned(), message: error },
                );
            }
            ToolResponse::Failure { error, code } => {
                let code = serde_json::to_value(code).ok().and_then(|code| code.as_str().map(str::to_owned));
                let failure = Failure { code: code.unwrap_or_default(), message: error };
                self.record_failure(graph, path, failure);
            }
        }
    }

    /// Records that a step failed: it is repeated, or has failed.
    pub(super) fn record_failure(&self, graph: &mut Graph, path: &str, failure: Failure) {
        let Some(mut step) = graph.step(path).cloned() else { return };
        if let Action::Tool { tool, .. } = &step.action
            && self.tools.is_retried(tool)
        {
            step.retry.get_or_insert(RETRY);
        }
        let jitter = self.journal.services.random_fraction();
        fail(&step, &mut graph.states, path, failure, self.journal.now(), jitter);
    }

    /// Records what an executor has returned.
    pub(super) fn record_outcome(&mut self, graph: &mut Graph, path: &str, outcome: ExecutorOutcome) {
        if outcome.untrusted {
            self.tools.read_untrusted();
        }
        if let Some((code, message)) = outcome.error {
            return self.record_failure(graph, path, Failure { code, message });
        }
        let schema = match graph.step(path).map(|step| &step.action) {
            Some(Action::Task { schema, .. }) => schema.clone(),
            _ => None,
        };
        match schema {
            None => {
                succeed(&mut graph.states, path, Value::String(outcome.text));
            }
            Some(schema) => match matching(&outcome.text, &schema) {
                Ok(value) => {
                    succeed(&mut graph.states, path, value);
                }
                Err(failure) => self.record_failure(graph, path, failure),
            },
        }
    }

    /// Records that a question was closed. Returns whether a person has allowed a call, which begins then.
    pub(super) fn record_answer(&self, graph: &mut Graph, path: &str, question: &Question) -> bool {
        if question.state == QuestionState::Open || graph.status(path) != Status::Asking {
            return false;
        }
        let is_call = graph.step(path).is_some_and(|step| matches!(step.action, Action::Tool { .. }));
        let outcome = question.outcome().cloned();
        match outcome {
            Some(Value::Bool(true)) if is_call => return true,
            Some(value) if !is_call => {
                answer(&mut graph.states, path, value);
            }
            other => {
                let (code, message) = match other {
                    Some(_) => ("PERMISSION_DENIED", "a person did not allow it"),
                    None => ("TIMEOUT", "there was no answer in time"),
                };
                let failure = Failure { code: code.to_owned(), message: message.to_owned() };
                if let Some(state) = graph.states.get_mut(path) {
                    (state.status, state.error, state.due) = (Status::Failed, Some(failure), None);
                }
            }
        }
        false
    }
}

/// A text as a value: JSON objects and lists are read.
fn value_of(text: String) -> Value {
    let parsed = text.starts_with(['{', '[']).then(|| serde_json::from_str(&text).ok()).flatten();
    parsed.unwrap_or(Value::String(text))
}

/// The JSON in a text, if it matches the schema.
fn matching(text: &str, schema: &Value) -> Result<Value, Failure> {
    let failure = |message: String| Failure { code: "VALIDATION_ERROR".to_owned(), message };
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
