//! Ending a drive: the run finished, was cancelled, or is handed over. Failures are in `failure`.

use std::ops::ControlFlow;

use houston_domain::agent::AgentRun;
use houston_domain::agent::budget::{BUDGET_EXCEEDED, OverBudget};
use houston_domain::agent::step::Next;
use houston_domain::error_message::{CONTENT_FILTER, ErrorMessage, user_text};
use houston_domain::event::Event;
use houston_domain::intervention::Intervention;
use houston_domain::question::approval;
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, RunTransition, Step};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use serde_json::json;

use super::{DriveOutcome, Flow, RunDriver};
use crate::error::Interrupted;
use crate::run::journal::{add_message, show_error};
use crate::run::storage::RunStorage;
use crate::run::tool_runner::{OpenCalls, add_tool_result};

/// Error code of a run that no agent may answer.
const AGENT_UNAVAILABLE: &str = "AGENT_UNAVAILABLE";

impl<S: RunStorage> RunDriver<'_, S> {
    /// Reads messages that arrived while no worker drove the run.
    pub(super) async fn read_messages(&mut self) -> Result<(), Interrupted> {
        let read = RunTransition::Continue { read: true, event: None };
        let step = self.journal.step(read);
        self.commit(step).await?;
        Ok(())
    }

    /// Ends a run that has nothing left to do. It continues if a new message arrived meanwhile.
    pub(super) async fn finish(&mut self, status: RunStatus) -> Flow {
        let mut step = self.journal.next_step();
        self.set_ending(&mut step, status);
        let done = self.commit(step).await?;
        Ok(if done.continued {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(DriveOutcome::Ended(status))
        })
    }

    /// Makes `step` end the run with `status`. If a limit or a content filter ended it, a message says so.
    pub(super) fn set_ending(&mut self, step: &mut Step, status: RunStatus) {
        if status == RunStatus::Completed && self.run.was_declined() {
            return self.set_ending_declined(step);
        }
        if let Some(notice) = status.notice().filter(|_| self.run.expects_reply()) {
            let mut metadata = self.label();
            metadata["notice"] = json!(status);
            // A new id: text that the iteration streamed has the id `next_message`.
            add_message(step, self.journal.new_id(), notice.to_owned(), metadata);
        }
        step.transition = match status {
            RunStatus::Completed | RunStatus::MessageSent | RunStatus::MaxTokens => {
                self.completed(status, None, None)
            }
            // A limit ends the run even if new messages arrived; they open the next run.
            _ => self.journal.terminated(status, None, None),
        };
    }

    /// Makes `step` end a run whose last answer was stopped by a content filter: completed, with an error message.
    fn set_ending_declined(&mut self, step: &mut Step) {
        if self.run.expects_reply() {
            // A run has at most one error message; this replaces an earlier one.
            self.journal.error = None;
            show_error(step, &ErrorMessage::stopped(self.journal.run(), CONTENT_FILTER));
        }
        let message = "the provider's content filter stopped the answer, or the model refused to answer";
        let (code, message) = (Some(CONTENT_FILTER.to_owned()), Some(message.to_owned()));
        step.transition = self.completed(RunStatus::Completed, code, message);
    }

    pub(super) fn completed(
        &self,
        status: RunStatus,
        code: Option<String>,
        message: Option<String>,
    ) -> RunTransition {
        let journal = &self.journal;
        RunTransition::Complete {
            event: journal.run_finished(status, code.clone(), message.clone()),
            continue_event: journal.step_finished(),
            ending: Ending { status, error_code: code, error_message: message },
        }
    }

    /// Ends the run with `status` outside of a turn.
    pub(super) async fn end(&mut self, status: RunStatus) -> Result<DriveOutcome, Interrupted> {
        self.end_with(status, OpenCalls::default()).await
    }

    /// Ends the run and closes its open calls.
    pub(super) async fn end_with(
        &mut self,
        status: RunStatus,
        open: OpenCalls,
    ) -> Result<DriveOutcome, Interrupted> {
        let mut step = self.journal.next_step();
        let open = self.without_paused(open).await;
        close_calls(&mut self.run, &mut step, status, open);
        self.set_ending(&mut step, status);
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }

    /// The open calls of the run. Responses of calls that another worker started are kept.
    pub(super) async fn open_calls(&self) -> Result<OpenCalls, Interrupted> {
        match self.run.next(self.journal.now()) {
            Next::CallTools(calls) => OpenCalls::read(&self.journal, &calls).await,
            _ => Ok(OpenCalls::default()),
        }
    }

    /// Ends what paused calls have begun elsewhere: their run ends.
    async fn without_paused(&self, mut open: OpenCalls) -> OpenCalls {
        if !open.paused.is_empty() {
            self.tools.give_up(std::mem::take(&mut open.paused)).await;
        }
        open
    }

    /// Ends the run because of a cancel request, or an intervention of the health monitor.
    pub(super) async fn cancel(&mut self) -> Result<DriveOutcome, Interrupted> {
        let open = self.open_calls().await?;
        self.cancel_with(open).await
    }

    /// [`Self::cancel`] with the open calls.
    pub(super) async fn cancel_with(&mut self, open: OpenCalls) -> Result<DriveOutcome, Interrupted> {
        let run = self.journal.run();
        self.acquit_others().await?;
        match self.journal.retrying(|storage| storage.intervention(run)).await? {
            Some(intervention) => self.intervene(intervention, open).await,
            None => self.end_with(RunStatus::Cancelled, open).await,
        }
    }

    /// Before a run ends that may have killed its workers: the runs that died with it are not to blame, or it will
    /// never be known.
    pub(super) async fn acquit_others(&self) -> Result<(), Interrupted> {
        if self.attempt.deaths > 0 {
            let agentable = self.journal.agentable();
            self.journal.retrying(|storage| storage.acquit_others(agentable)).await?;
        }
        Ok(())
    }

    /// Ends the run as failed for the health monitor's reason.
    async fn intervene(
        &mut self,
        intervention: Intervention,
        open: OpenCalls,
    ) -> Result<DriveOutcome, Interrupted> {
        let run = self.journal.run();
        tracing::warn!(%run, reason = intervention.as_str(), "the health monitor ends a run");
        let mut step = self.journal.next_step();
        let open = self.without_paused(open).await;
        close_calls(&mut self.run, &mut step, RunStatus::Failed, open);
        let (code, notice) = (intervention.code(), intervention.notice());
        self.terminate(step, code, notice, notice.to_owned()).await
    }

    /// Ends the run before a call that might exceed a budget. It is not retried, because the call would cost the same.
    pub(super) async fn stop_for_budget(&mut self, over: &OverBudget) -> Result<DriveOutcome, Interrupted> {
        tracing::info!(run = %self.journal.run(), %over, "the run ends: its budget is reached");
        self.stop_with(BUDGET_EXCEEDED, over.to_string()).await
    }

    /// Ends a run that no agent may answer. `reason` is for operators.
    pub(super) async fn stop_unavailable(&mut self, reason: String) -> Result<DriveOutcome, Interrupted> {
        tracing::info!(run = %self.journal.run(), reason, "no agent may answer");
        self.stop_with(AGENT_UNAVAILABLE, reason).await
    }

    /// Ends the run as failed, without a retry. `text` is the run's error for operators; the user reads [`user_text`].
    pub(super) async fn stop_with(&mut self, code: &str, text: String) -> Result<DriveOutcome, Interrupted> {
        let open = self.open_calls().await?;
        let open = self.without_paused(open).await;
        let mut step = self.journal.next_step();
        close_calls(&mut self.run, &mut step, RunStatus::Failed, open);
        self.terminate(step, code, user_text(code), text).await
    }

    /// Commits `step` as the end of a failed run: the user reads `notice`, operators read `text`.
    pub(super) async fn terminate(
        &mut self,
        mut step: Step,
        code: &str,
        notice: &str,
        text: String,
    ) -> Result<DriveOutcome, Interrupted> {
        let status = RunStatus::Failed;
        show_error(&mut step, &ErrorMessage::permanent(self.journal.run(), code, notice));
        step.transition = self.journal.terminated(status, Some(code.to_owned()), Some(text));
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }

    /// Releases the run. Another worker continues from what is committed.
    pub(super) async fn hand_over(&mut self) -> Result<DriveOutcome, Interrupted> {
        let event = Event::HandedOver { iteration: self.journal.open_iteration };
        let step = self.journal.step(RunTransition::Release { event });
        self.commit(step).await?;
        Ok(DriveOutcome::HandedOver)
    }
}

/// Gives every open call its result, in the history and in the thread: its response if there is one; else that it was cut
/// off, or not started because it waited for a person.
pub(super) fn close_calls(run: &mut AgentRun, step: &mut Step, status: RunStatus, open: OpenCalls) {
    let OpenCalls { responses: mut known, cells, held, paused: _ } = open;
    let reason = cut_off(status);
    for (call, cell) in cells.iter().filter(|(call, _)| !known.iter().any(|(known, _)| known == call)) {
        add_tool_result(step, call, *cell, &reason);
    }
    for (call, cell) in held {
        let response = approval::never_decided();
        add_tool_result(step, &call, cell, &response);
        known.push((call, response));
    }
    step.entries.extend(run.on_end(status, known, &reason));
}

/// The tool result of calls that were cut off.
fn cut_off(status: RunStatus) -> ToolResponse {
    match status {
        RunStatus::Cancelled => ToolResponse::failure(
            ToolErrorCode::Unknown,
            "cancelled while this call ran. It may have happened: verify before you try again.",
        ),
        _ => ToolResponse::outcome_unknown(),
    }
}
