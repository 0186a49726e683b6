//! Ending a drive: the run finished, was cancelled, or is handed over. Failures are in `failure`.

use std::ops::ControlFlow;

use houston_domain::agent::step::Next;
use houston_domain::error_message::{CONTENT_FILTER, ErrorMessage};
use houston_domain::event::Event;
use houston_domain::id::MessageId;
use houston_domain::model::{ModelError, Usage};
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, RunTransition, Step};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::cost::Cost;
use houston_store::history::CommittedIntent;
use serde_json::json;

use crate::commit::add_message;
use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::failure::show_error;
use crate::run_driver::RunDriver;
use crate::turn::add_tool_result;

impl RunDriver<'_> {
    /// Reads messages that arrived while no worker drove the run.
    pub(crate) async fn read_messages(&mut self) -> Result<(), Interrupted> {
        let step = self.step(Usage::default(), RunTransition::Continue { read: true, event: None });
        self.commit(step).await?;
        Ok(())
    }

    /// Ends a run that has nothing left to do. It continues if a new message arrived meanwhile.
    pub(crate) async fn finish(
        &mut self,
        status: RunStatus,
    ) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        self.set_ending(&mut step, status);
        let done = self.commit(step).await?;
        Ok(if done.continued {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(DriveOutcome::Ended(status))
        })
    }

    /// Makes `step` end the run with `status`. If a limit or a content filter ended it, a message says so.
    pub(crate) fn set_ending(&mut self, step: &mut Step, status: RunStatus) {
        if status == RunStatus::Completed && self.run.was_declined() {
            return self.set_ending_declined(step);
        }
        if let Some(notice) = status.notice().filter(|_| self.run.expects_reply()) {
            let mut metadata = self.label();
            metadata["notice"] = json!(status);
            // A new id: text that the iteration streamed has the id `next_message`.
            add_message(step, self.engine.ids.next(), notice.to_owned(), metadata);
        }
        let event = self.run_finished(status, None);
        let ending = self.new_ending(status, None);
        step.transition = match status {
            RunStatus::Completed | RunStatus::MessageSent | RunStatus::MaxTokens => {
                RunTransition::Complete { event, continue_event: self.step_finished(), ending }
            }
            // A limit ends the run even if new messages arrived; they open the next run.
            _ => RunTransition::Terminate { event, ending },
        };
    }

    /// Makes `step` end a run whose last answer was stopped by a content filter: completed, with an error message.
    fn set_ending_declined(&mut self, step: &mut Step) {
        if self.run.expects_reply() {
            // A run has at most one error message; this replaces an earlier one.
            self.claimed.error = None;
            show_error(step, &ErrorMessage::stopped(self.claimed.run, CONTENT_FILTER));
        }
        let status = RunStatus::Completed;
        let message = "the provider's content filter stopped the answer, or the model refused to answer";
        let (code, message) = (Some(CONTENT_FILTER.to_owned()), Some(message.to_owned()));
        let event = Event::RunFinished {
            status,
            iteration: Some(self.open_step),
            usage: self.total_usage(),
            message: message.clone(),
            code: code.clone(),
        };
        let next_run = self.engine.ids.next();
        let ending = Ending { status, next_run, error_code: code, error_message: message };
        step.transition = RunTransition::Complete { event, continue_event: self.step_finished(), ending };
    }

    /// Tokens and cost of the run so far. The cost is `None`, not 0, if no call has a known price.
    pub(crate) fn total_usage(&self) -> Usage {
        let known = Cost::of(self.usage.cost, self.unpriced_calls).total;
        Usage { cost: known, ..self.usage }
    }

    /// The status with which a step ends the run, if it ends it.
    pub(crate) fn ending_status(&self, then: &RunTransition) -> Option<RunStatus> {
        match then {
            RunTransition::Complete { ending, .. } | RunTransition::Terminate { ending, .. } => {
                Some(ending.status)
            }
            _ => None,
        }
    }

    /// The event that closes the open iteration.
    pub(crate) fn step_finished(&self) -> Event {
        Event::StepFinished { iteration: self.open_step, next_message_id: self.engine.ids.next() }
    }

    /// The event that ends the run.
    pub(crate) fn run_finished(&self, status: RunStatus, error: Option<&ModelError>) -> Event {
        Event::RunFinished {
            status,
            iteration: Some(self.open_step),
            usage: self.total_usage(),
            message: error
                .map(|error| error.message.clone())
                .or_else(|| (!status.answers()).then(|| status.notice().map(str::to_owned)).flatten()),
            code: error.map(|error| error.code.as_str().to_owned()),
        }
    }

    /// The ending that a step records for the run.
    pub(crate) fn new_ending(&self, status: RunStatus, error: Option<&ModelError>) -> Ending {
        Ending {
            status,
            next_run: self.engine.ids.next(),
            error_code: error.map(|error| error.code.as_str().to_owned()),
            error_message: error.map(|error| error.message.clone()),
        }
    }

    /// Ends the run with `status` outside of a turn.
    pub(crate) async fn end(&mut self, status: RunStatus) -> Result<DriveOutcome, Interrupted> {
        self.end_with(status, Vec::new(), &[]).await
    }

    /// Ends the run and closes its open calls: those in `known` with their responses, the others as cut off. `cells` are the
    /// thread messages of the calls.
    pub(crate) async fn end_with(
        &mut self,
        status: RunStatus,
        known: Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<DriveOutcome, Interrupted> {
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        self.close_calls(&mut step, status, known, cells);
        self.set_ending(&mut step, status);
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }

    /// Gives every open call its result, in the history and in the thread.
    pub(crate) fn close_calls(
        &mut self,
        step: &mut Step,
        status: RunStatus,
        known: Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) {
        let reason = cut_off(status);
        for (call, cell) in cells.iter().filter(|(call, _)| !known.iter().any(|(known, _)| known == call)) {
            add_tool_result(step, call, *cell, &reason);
        }
        step.entries.extend(self.run.on_end(status, known, &reason));
    }

    /// Ends the run because of a cancel request, or an intervention of the health monitor.
    pub(crate) async fn cancel(&mut self) -> Result<DriveOutcome, Interrupted> {
        let (mut known, mut cells) = (Vec::new(), Vec::new());
        if matches!(self.run.next(self.now()), Next::CallTools(_)) {
            // Responses of calls that another worker started are kept.
            let run = self.claimed.run;
            let calls =
                self.retrying(|store| Box::pin(async move { store.committed_intents(run).await })).await?;
            for (call, CommittedIntent { cell, response }) in calls {
                match response {
                    Some(response) => known.push((call, response)),
                    None => cells.push((call, cell)),
                }
            }
        }
        self.cancel_with(known, &cells).await
    }

    /// [`Self::cancel`] with the responses and cells of open calls, as in [`Self::end_with`].
    pub(crate) async fn cancel_with(
        &mut self,
        known: Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<DriveOutcome, Interrupted> {
        let run = self.claimed.run;
        let intervention =
            self.retrying(|store| Box::pin(async move { store.intervention(run).await })).await?;
        match intervention {
            Some(intervention) => self.intervene(intervention, known, cells).await,
            None => self.end_with(RunStatus::Cancelled, known, cells).await,
        }
    }

    /// Releases the run. Another worker continues from what is committed.
    pub(crate) async fn hand_over(&mut self) -> Result<DriveOutcome, Interrupted> {
        let event = Event::HandedOver { iteration: self.open_step };
        let step = self.step(Usage::default(), RunTransition::Release { event });
        self.commit(step).await?;
        Ok(DriveOutcome::HandedOver)
    }
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
