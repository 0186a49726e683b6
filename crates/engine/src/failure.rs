//! What a failure does to a run, and what its user reads of it: one error message, which counts down to the next
//! attempt, is settled by it, or is the last word.

use houston_domain::error_message::{PendingRetry, ErrorMessage, user_text};
use houston_domain::event::Event;
use houston_domain::history::Role;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::{ModelError, Usage};
use houston_domain::retry::{Failing, Planned};
use houston_domain::run::RunStatus;
use houston_domain::tool_call::ToolResponse;
use houston_store::claim::Claimed;
use houston_store::step::{Ending, NewMessage, Step, RunTransition};

use crate::context::RunDriver;
use crate::drive::DriveOutcome;
use crate::engine::Engine;
use crate::error::Interrupted;

impl RunDriver<'_> {
    /// The model failed: the next attempt is due later, or there is none.
    pub(crate) async fn fail(&mut self, error: &ModelError) -> Result<DriveOutcome, Interrupted> {
        let now = self.now();
        let since = self.claimed.error.as_ref().and_then(ErrorMessage::since).unwrap_or(now);
        let run = Failing { failed: self.claimed.failed_attempts, since, now };
        match self.engine.config.delayed.next_attempt(error, &run, self.engine.chance()) {
            Some(planned) => self.wait(error, planned, since).await,
            None => self.give_up(error).await,
        }
    }

    /// Lets go of the run until its next attempt. Text that was streamed meanwhile is taken back by the event.
    async fn wait(
        &mut self,
        error: &ModelError,
        Planned { at, counts }: Planned,
        since: chrono::DateTime<chrono::Utc>,
    ) -> Result<DriveOutcome, Interrupted> {
        tracing::warn!(%error, retry_at = %at, counts, "the model failed, trying again later");
        let of = self.engine.config.delayed.attempts(error);
        // Past the last one only while the breaker is open, which costs none.
        let attempt = (self.claimed.failed_attempts + 1).min(of);
        let retry = PendingRetry { attempt, of, retry_at: at, since };
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        show(&mut step, &ErrorMessage::waiting(self.claimed.run, error, &retry));
        let event = Event::RetryScheduled {
            attempt,
            of,
            retry_at: at,
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            iteration: self.open_step,
        };
        let ending = self.ending_as(RunStatus::Retrying, Some(error));
        step.transition = RunTransition::Retry { event, at, counts, ending };
        let done = self.commit(step).await?;
        // One that was cancelled meanwhile waits for nothing.
        let due = if done.cancel_seq.is_some() { self.now() } else { at };
        Ok(DriveOutcome::Retrying { after: (due - self.now()).to_std().unwrap_or_default(), lane: self.lane() })
    }

    async fn give_up(&mut self, error: &ModelError) -> Result<DriveOutcome, Interrupted> {
        tracing::warn!(%error, "the model failed for good");
        let status = RunStatus::Failed;
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        show(
            &mut step,
            &ErrorMessage::permanent(self.claimed.run, error.code.as_str(), user_text(error.code.as_str())),
        );
        step.transition = RunTransition::Terminate {
            event: self.run_finished(status, Some(error)),
            ending: self.ending_as(status, Some(error)),
        };
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }

    /// Gives up on a message that took its worker down too often.
    pub(crate) async fn dead_letter(&mut self) -> Result<DriveOutcome, Interrupted> {
        let (deaths, claims) = (self.claimed.deaths, self.claimed.claims);
        tracing::error!(run = %self.claimed.run, deaths, claims, "message given up");
        let status = RunStatus::DeadLettered;
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        let text = status.notice().unwrap_or_default();
        show(&mut step, &ErrorMessage::permanent(self.claimed.run, "DEAD_LETTERED", text));
        step.transition =
            RunTransition::Terminate { event: self.run_finished(status, None), ending: self.ending_as(status, None) };
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }

    /// Adds to `step` that the failure the user was told of is over, once the model has answered again or the
    /// run ends. Of a run that never failed there is nothing to say.
    pub(crate) fn settle_error(&mut self, step: &mut Step) {
        let ending = self.ending_status(&step.transition);
        let answered = step.entries.iter().any(|entry| entry.role == Role::Assistant);
        if matches!(ending, Some(RunStatus::Failed | RunStatus::DeadLettered))
            || !(answered || ending.is_some())
        {
            return;
        }
        if let Some(error) = self.claimed.error.take() {
            show(step, &error.settled(ending.is_none_or(RunStatus::answers)));
        }
    }
}

impl Engine {
    /// A number in 0..1 for jitter.
    pub(crate) fn chance(&self) -> f64 {
        let mut random = [0; 4];
        self.ids.fill(&mut random);
        f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX)
    }
}

/// Puts the run's error message into the thread, or changes it, and tells the streams.
pub(crate) fn show(step: &mut Step, error: &ErrorMessage) {
    step.messages.push(NewMessage {
        id: error.id,
        event: step.events.len(),
        source: Source::Error,
        message_type: MessageType::Text,
        content: error.content.clone(),
        metadata: error.metadata.clone(),
    });
    step.events.push(error.event());
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
    let error = ErrorMessage::permanent(claimed.run, &code, user_text(&code));
    let ending =
        Ending { status, next_run: engine.ids.next(), error_code: Some(code), error_message: Some(text) };
    let mut step = Step {
        write: engine.ids.next(),
        run: claimed.run,
        entries: Vec::new(),
        events: Vec::new(),
        messages: Vec::new(),
        intents: Vec::new(),
        responses: Vec::new(),
        cells: Vec::new(),
        large_results: Vec::new(),
        iterations: u32::try_from(claimed.iterations).unwrap_or(0),
        usage: Usage::default(),
        model: None,
        call: None,
        transition: RunTransition::Terminate { event, ending },
    };
    show(&mut step, &error);
    step
}
