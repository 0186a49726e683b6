//! Ending a drive: finished, cancelled, handed over. What fails is in `failure`.

use std::ops::ControlFlow;

use houston_domain::agent::step::Next;
use houston_domain::error_message::{CONTENT_FILTER, ErrorMessage};
use houston_domain::event::Event;
use houston_domain::id::MessageId;
use houston_domain::model::{ModelError, Usage};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::cost::Cost;
use houston_store::history::KnownCall;
use houston_store::step::{Ending, Step, RunTransition};
use serde_json::json;

use crate::commit::send;
use crate::context::RunDriver;
use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::failure::show;
use crate::turn::returned;

impl RunDriver<'_> {
    /// Reads messages that came while no worker drove the run.
    pub(crate) async fn read_messages(&mut self) -> Result<(), Interrupted> {
        let step = self.step(Usage::default(), RunTransition::Continue { read: true, event: None });
        self.commit(step).await?;
        Ok(())
    }

    /// Ends a run that has nothing left to do.
    pub(crate) async fn finish(&mut self, status: RunStatus) -> Result<ControlFlow<DriveOutcome>, Interrupted> {
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        self.ending(&mut step, status);
        let done = self.commit(step).await?;
        Ok(if done.went_on { ControlFlow::Continue(()) } else { ControlFlow::Break(DriveOutcome::Ended(status)) })
    }

    /// Lets a step end the run with `status`; a limit tells the user so, and so does a content filter.
    pub(crate) fn ending(&mut self, step: &mut Step, status: RunStatus) {
        if status == RunStatus::Completed && self.run.was_declined() {
            return self.ending_declined(step);
        }
        if let Some(notice) = status.notice().filter(|_| self.run.is_awaited()) {
            let mut metadata = self.label();
            metadata["notice"] = json!(status);
            // A fresh id: what the iteration streamed, if anything, has its own.
            send(step, self.engine.ids.next(), notice.to_owned(), metadata);
        }
        let event = self.run_finished(status, None);
        let ending = self.ending_as(status, None);
        step.transition = match status {
            RunStatus::Completed | RunStatus::MessageSent | RunStatus::MaxTokens => {
                RunTransition::Complete { event, go_on: self.step_finished(), ending }
            }
            // A limit holds for the run, not for what was posted since: that opens the next one.
            _ => RunTransition::Terminate { event, ending },
        };
    }

    /// Lets a step end a run whose last answer was stopped by a content filter: completed, with an error that says so.
    fn ending_declined(&mut self, step: &mut Step) {
        if self.run.is_awaited() {
            // A run has one error message: an earlier one is replaced.
            self.claimed.error = None;
            show(step, &ErrorMessage::stopped(self.claimed.run, CONTENT_FILTER));
        }
        let status = RunStatus::Completed;
        let message = "the provider's content filter stopped the answer, or the model refused to answer";
        let (code, message) = (Some(CONTENT_FILTER.to_owned()), Some(message.to_owned()));
        let event = Event::RunFinished {
            status,
            iteration: Some(self.open_step),
            usage: self.spent_usage(),
            message: message.clone(),
            code: code.clone(),
        };
        let next_run = self.engine.ids.next();
        let ending = Ending { status, next_run, error_code: code, error_message: message };
        step.transition = RunTransition::Complete { event, go_on: self.step_finished(), ending };
    }

    /// What the run used until now. Its cost is null, not 0, where nothing is known of it.
    pub(crate) fn spent_usage(&self) -> Usage {
        let known = Cost::of(self.usage.cost, self.unpriced_calls).known;
        Usage { cost: known, ..self.usage }
    }

    /// The status a step ends the run with, if it does.
    pub(crate) fn ending_status(&self, then: &RunTransition) -> Option<RunStatus> {
        match then {
            RunTransition::Complete { ending, .. } | RunTransition::Terminate { ending, .. } => Some(ending.status),
            _ => None,
        }
    }

    pub(crate) fn step_finished(&self) -> Event {
        Event::StepFinished { iteration: self.open_step, next_message_id: self.engine.ids.next() }
    }

    pub(crate) fn run_finished(&self, status: RunStatus, error: Option<&ModelError>) -> Event {
        Event::RunFinished {
            status,
            iteration: Some(self.open_step),
            usage: self.spent_usage(),
            message: error
                .map(|error| error.message.clone())
                .or_else(|| (!status.answers()).then(|| status.notice().map(str::to_owned)).flatten()),
            code: error.map(|error| error.code.as_str().to_owned()),
        }
    }

    pub(crate) fn ending_as(&self, status: RunStatus, error: Option<&ModelError>) -> Ending {
        Ending {
            status,
            next_run: self.engine.ids.next(),
            error_code: error.map(|error| error.code.as_str().to_owned()),
            error_message: error.map(|error| error.message.clone()),
        }
    }

    /// Ends the run from outside.
    pub(crate) async fn end(&mut self, status: RunStatus) -> Result<DriveOutcome, Interrupted> {
        self.end_with(status, Vec::new(), &[]).await
    }

    /// The same, closing the calls that are open: with the responses that are known already, and in the thread
    /// those whose cells these are.
    pub(crate) async fn end_with(
        &mut self,
        status: RunStatus,
        known: Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<DriveOutcome, Interrupted> {
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        self.close_calls(&mut step, status, known, cells);
        self.ending(&mut step, status);
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
            returned(step, call, *cell, &reason);
        }
        step.entries.extend(self.run.on_end(status, known, &reason));
    }

    /// Ends the run because somebody asked for it, or the health monitor did.
    pub(crate) async fn cancel(&mut self) -> Result<DriveOutcome, Interrupted> {
        let (mut known, mut cells) = (Vec::new(), Vec::new());
        if matches!(self.run.next(self.now()), Next::CallTools(_)) {
            // Calls that another worker began: what they answered counts.
            let run = self.claimed.run;
            let calls = self.retrying(|store| Box::pin(async move { store.known_calls(run).await })).await?;
            for (call, KnownCall { cell, response }) in calls {
                match response {
                    Some(response) => known.push((call, response)),
                    None => cells.push((call, cell)),
                }
            }
        }
        self.cancel_with(known, &cells).await
    }

    /// The same, as [`Self::end_with`].
    pub(crate) async fn cancel_with(
        &mut self,
        known: Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<DriveOutcome, Interrupted> {
        let run = self.claimed.run;
        let asked = self.retrying(|store| Box::pin(async move { store.intervention(run).await })).await?;
        match asked {
            Some(intervention) => self.intervene(intervention, known, cells).await,
            None => self.end_with(RunStatus::Cancelled, known, cells).await,
        }
    }

    /// Lets go of the run; another worker goes on from what is committed.
    pub(crate) async fn hand_over(&mut self) -> Result<DriveOutcome, Interrupted> {
        let event = Event::HandedOver { iteration: self.open_step };
        let step = self.step(Usage::default(), RunTransition::Release { event });
        self.commit(step).await?;
        Ok(DriveOutcome::HandedOver)
    }
}

/// What the model is told of calls that were cut off.
fn cut_off(status: RunStatus) -> ToolResponse {
    match status {
        RunStatus::Cancelled => ToolResponse::failure(
            ToolErrorCode::Unknown,
            "cancelled while this call ran. It may have happened: verify before you try again.",
        ),
        _ => ToolResponse::outcome_unknown(),
    }
}
