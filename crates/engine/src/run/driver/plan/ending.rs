//! The ends of plans.

use std::ops::ControlFlow;

use houston_domain::error_message::user_text;
use houston_domain::plan::{End, Failure, PlanEnd, ended};
use houston_domain::run::RunStatus;
use serde_json::{Value, json};

use super::begun::Begun;
use super::graph::Graph;
use super::replan::Replanned;
use super::work::Works;
use crate::error::Interrupted;
use crate::run::driver::{DriveOutcome, Flow, RunDriver};
use crate::run::journal::add_message;
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;
use crate::setup::shown::shown;

/// Why a plan fails whose run kills its workers.
pub(super) fn given_up() -> Failure {
    Failure {
        code: "DEAD_LETTERED".to_owned(),
        message: "its workers died too often while they drove it".to_owned(),
    }
}

impl<S: RunStorage> RunDriver<'_, S> {
    /// Ends the plan. Continues if its run does, because something arrived.
    pub(super) async fn end_plan(
        &mut self,
        graph: &mut Graph,
        works: &mut Works,
        begun: &mut Begun,
        end: End,
    ) -> Flow {
        let end = match end {
            End::Replan(path) => match self.replan(graph, begun, &path).await? {
                Replanned::Changed => return Ok(ControlFlow::Continue(())),
                Replanned::Failed(failure) => End::Failed(failure),
                Replanned::Stopped(Stop::Cancelled) => return Ok(ControlFlow::Continue(())),
                Replanned::Stopped(Stop::Drained) => {
                    works.abort_all();
                    return self.hand_over().await.map(ControlFlow::Break);
                }
                Replanned::Stopped(Stop::OutOfTime) => {
                    let stopped = self.stop_plan(graph, works, RunStatus::MaxDuration).await;
                    return stopped.map(ControlFlow::Break);
                }
            },
            end => end,
        };
        works.settle();
        let (failed, output) = match &end {
            End::Completed(output) => (None, output.clone()),
            End::Failed(failure) => (Some(failure.clone()), Value::Null),
            End::Cancelled | End::Replan(_) => return self.cancel_closed(graph, &end).await,
        };
        let status = if failed.is_some() { "failed" } else { "completed" };
        let mut step = self.plan_commit(graph, begun);
        let plan_end = self.plan_end(graph, &end, status, output.clone());
        if let Some(changes) = self.journal.plan.as_mut() {
            changes.end = Some(plan_end);
            changes.listed = None;
        }
        if let Some(Failure { code, message }) = failed {
            return self.terminate(step, &code, user_text(&code), message).await.map(ControlFlow::Break);
        }
        let text = match output {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        if !text.is_empty() {
            let inert = self.tools.must_be_inert();
            let text = if inert { shown(&text, &self.setup.guards) } else { text };
            add_message(&mut step, self.journal.new_id(), text, self.label());
        }
        step.transition = self.completed(RunStatus::Completed, None, None);
        let done = self.commit(step).await?;
        graph.commit(begun);
        begun.committed();
        self.void_written().await?;
        Ok(match done.continued {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(DriveOutcome::Ended(RunStatus::Completed)),
        })
    }

    async fn cancel_closed(&mut self, graph: &mut Graph, end: &End) -> Flow {
        self.close_graph(graph, end);
        self.cancel().await.map(ControlFlow::Break)
    }

    /// Ends the plan because its run was cancelled, or has no time left.
    pub(super) async fn stop_plan(
        &mut self,
        graph: &mut Graph,
        works: &mut Works,
        status: RunStatus,
    ) -> Result<DriveOutcome, Interrupted> {
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
                let message = "the plan took longer than it may".to_owned();
                self.close_graph(graph, &End::Failed(Failure { code: "TIMEOUT".to_owned(), message }));
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
        let (mut changes, _) = graph.changes_with(&Begun::default());
        changes.listed = None;
        changes.end = Some(self.plan_end(graph, end, status, Value::Null));
        self.journal.plan = Some(Box::new(changes));
    }

    fn plan_end(&self, graph: &Graph, end: &End, status: &str, output: Value) -> PlanEnd {
        let list = graph.last_list(status);
        let report = ended(&list, &graph.states, end, self.tools.has_read_untrusted());
        PlanEnd { output, report, checklist: json!(list) }
    }
}

pub(super) fn failure_of(graph: &Graph, path: &str) -> Failure {
    let error = graph.states.get(path).and_then(|state| state.error.clone());
    error.unwrap_or_else(|| Failure { code: "STEP_FAILED".to_owned(), message: format!("`{path}` failed") })
}
