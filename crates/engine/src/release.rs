//! Ending a drive: finished, failed, cancelled, retried later, handed over.

use std::ops::ControlFlow;

use houston_domain::agent::step::Next;
use houston_domain::event::Event;
use houston_domain::id::MessageId;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::{ModelError, Usage};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::claim::Claimed;
use houston_store::history::KnownCall;
use houston_store::step::{Ending, NewMessage, Step, Then};
use serde_json::json;

use crate::commit::send;
use crate::context::Driving;
use crate::drive::Driven;
use crate::engine::Engine;
use crate::error::Halt;
use crate::turn::returned;

impl Driving<'_> {
    /// Reads messages that came while no worker drove the run.
    pub(crate) async fn read_messages(&mut self) -> Result<(), Halt> {
        let step = self.step(Usage::default(), Then::GoOn { read: true, event: None });
        self.commit(step).await?;
        Ok(())
    }

    /// Ends a run that has nothing left to do.
    pub(crate) async fn finish(&mut self, status: RunStatus) -> Result<ControlFlow<Driven>, Halt> {
        let mut step = self.step(Usage::default(), Then::GoOn { read: false, event: None });
        self.ending(&mut step, status);
        let done = self.commit(step).await?;
        Ok(if done.went_on { ControlFlow::Continue(()) } else { ControlFlow::Break(Driven::Ended(status)) })
    }

    /// Lets a step end the run with `status`; a limit tells the user so.
    pub(crate) fn ending(&self, step: &mut Step, status: RunStatus) {
        if let Some(notice) = status.notice().filter(|_| self.setup.policy.conversational) {
            let mut metadata = self.label();
            metadata["notice"] = json!(status);
            // A fresh id: what the iteration streamed, if anything, has its own.
            send(step, self.engine.ids.next(), notice.to_owned(), metadata);
        }
        let event = self.run_finished(status, None);
        let ending = self.ending_as(status, None);
        step.then = match status {
            RunStatus::Completed | RunStatus::MessageSent | RunStatus::MaxTokens => {
                Then::Finish { event, go_on: self.step_finished(), ending }
            }
            // A limit holds for the run, not for what was posted since: that opens the next one.
            _ => Then::End { event, ending },
        };
    }

    /// The status a step ends the run with, if it does.
    pub(crate) fn ending_status(&self, then: &Then) -> Option<RunStatus> {
        match then {
            Then::Finish { ending, .. } | Then::End { ending, .. } => Some(ending.status),
            _ => None,
        }
    }

    pub(crate) fn step_finished(&self) -> Event {
        Event::StepFinished { iteration: self.open_step, next_message_id: self.engine.ids.next() }
    }

    fn run_finished(&self, status: RunStatus, error: Option<&ModelError>) -> Event {
        Event::RunFinished {
            status,
            iteration: Some(self.open_step),
            usage: self.usage,
            message: error
                .map(|error| error.message.clone())
                .or_else(|| (!status.answers()).then(|| status.notice().map(str::to_owned)).flatten()),
            code: error.map(|error| error.code.as_str().to_owned()),
        }
    }

    fn ending_as(&self, status: RunStatus, error: Option<&ModelError>) -> Ending {
        Ending {
            status,
            next_run: self.engine.ids.next(),
            error_code: error.map(|error| error.code.as_str().to_owned()),
            error_message: error.map(|error| error.message.clone()),
        }
    }

    /// Ends the run from outside.
    pub(crate) async fn end(&mut self, status: RunStatus) -> Result<Driven, Halt> {
        self.end_with(status, Vec::new(), &[]).await
    }

    /// The same, closing the calls that are open: with the responses that are known already, and in the thread
    /// those whose cells these are.
    pub(crate) async fn end_with(
        &mut self,
        status: RunStatus,
        known: Vec<(String, ToolResponse)>,
        cells: &[(String, MessageId)],
    ) -> Result<Driven, Halt> {
        let mut step = self.step(Usage::default(), Then::GoOn { read: false, event: None });
        self.close_calls(&mut step, status, known, cells);
        self.ending(&mut step, status);
        self.commit(step).await?;
        Ok(Driven::Ended(status))
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
    pub(crate) async fn cancel(&mut self) -> Result<Driven, Halt> {
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
    ) -> Result<Driven, Halt> {
        let run = self.claimed.run;
        let asked = self.retrying(|store| Box::pin(async move { store.intervention(run).await })).await?;
        match asked {
            Some(intervention) => self.intervene(intervention, known, cells).await,
            None => self.end_with(RunStatus::Cancelled, known, cells).await,
        }
    }

    /// Gives up on a message that took its worker down too often.
    pub(crate) async fn dead_letter(&mut self) -> Result<Driven, Halt> {
        tracing::error!(run = %self.claimed.run, crashes = self.claimed.crash_count - 1, "message given up");
        let status = RunStatus::DeadLettered;
        let mut step = self.step(Usage::default(), Then::GoOn { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        self.error_message(&mut step, status.notice().unwrap_or_default(), "DEAD_LETTERED");
        step.then =
            Then::End { event: self.run_finished(status, None), ending: self.ending_as(status, None) };
        self.commit(step).await?;
        Ok(Driven::Ended(status))
    }

    /// The model failed: the next attempt is due later, or there is none.
    pub(crate) async fn fail(&mut self, error: &ModelError) -> Result<Driven, Halt> {
        let failed = self.claimed.failed_attempts + 1;
        let wait = error.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let policy = self.engine.config.delayed;
        let due = policy.next_attempt(error.code, failed, wait, self.chance(), self.now());
        let mut step = self.step(Usage::default(), Then::GoOn { read: false, event: None });
        if let Some(at) = due {
            tracing::warn!(%error, retry_at = %at, "the model failed, trying again later");
            let event = Event::RetryScheduled {
                attempt: failed,
                of: policy.attempts(error.code),
                retry_at: at,
                code: error.code.as_str().to_owned(),
                message: error.message.clone(),
                iteration: self.open_step,
            };
            step.then = Then::Retry { event, at, ending: self.ending_as(RunStatus::Retrying, Some(error)) };
            let done = self.commit(step).await?;
            // One that was cancelled meanwhile waits for nothing.
            return Ok(Driven::Retrying(if done.cancel_seq.is_some() { self.now() } else { at }));
        }
        tracing::warn!(%error, "the model failed for good");
        let status = RunStatus::Failed;
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        self.error_message(&mut step, &error.message, error.code.as_str());
        step.then = Then::End {
            event: self.run_finished(status, Some(error)),
            ending: self.ending_as(status, Some(error)),
        };
        self.commit(step).await?;
        Ok(Driven::Ended(status))
    }

    /// A number in 0..1 for jitter.
    fn chance(&self) -> f64 {
        let mut random = [0; 4];
        self.engine.ids.fill(&mut random);
        f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX)
    }

    /// Tells the user in the thread; the event that ends the run carries the same for streams.
    pub(crate) fn error_message(&self, step: &mut Step, text: &str, code: &str) {
        step.messages.push(NewMessage {
            id: self.engine.ids.next(),
            event: step.events.len(),
            source: Source::Error,
            message_type: MessageType::Text,
            content: text.to_owned(),
            metadata: json!({"code": code, "retryable": false}),
        });
    }

    /// Lets go of the run; another worker goes on from what is committed.
    pub(crate) async fn hand_over(&mut self) -> Result<Driven, Halt> {
        let event = Event::HandedOver { iteration: self.open_step };
        let step = self.step(Usage::default(), Then::HandOver { event });
        self.commit(step).await?;
        Ok(Driven::HandedOver)
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

/// The step that ends a run nobody here can drive.
pub(crate) fn refusal(engine: &Engine, claimed: &Claimed, status: RunStatus, text: String) -> Step {
    let code = "UNKNOWN_KIND".to_owned();
    let event = Event::RunFinished {
        status,
        iteration: Some(u32::try_from(claimed.iterations).unwrap_or(0) + 1),
        usage: Usage::default(),
        message: Some(text.clone()),
        code: Some(code.clone()),
    };
    Step {
        write: engine.ids.next(),
        run: claimed.run,
        entries: Vec::new(),
        events: Vec::new(),
        messages: vec![NewMessage {
            id: engine.ids.next(),
            event: 0,
            source: Source::Error,
            message_type: MessageType::Text,
            content: text.clone(),
            metadata: json!({"code": code, "retryable": false}),
        }],
        intents: Vec::new(),
        responses: Vec::new(),
        cells: Vec::new(),
        iterations: u32::try_from(claimed.iterations).unwrap_or(0),
        usage: Usage::default(),
        model: None,
        then: Then::End {
            event,
            ending: Ending {
                status,
                next_run: engine.ids.next(),
                error_code: Some(code),
                error_message: Some(text),
            },
        },
    }
}
