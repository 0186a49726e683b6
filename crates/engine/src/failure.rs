//! Failures of a run: retry or give up. The user sees one error message per run: it counts down to the next attempt, is
//! marked as settled when that succeeds, or says that the run failed for good.

use houston_domain::error_message::{ErrorMessage, PendingRetry, user_text};
use houston_domain::event::Event;
use houston_domain::history::Role;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::{ModelError, Usage};
use houston_domain::retry::{FailedRun, PlannedRetry};
use houston_domain::run::RunStatus;
use houston_domain::step::{Ending, NewMessage, RunTransition, Step};
use houston_domain::tool_call::ToolResponse;
use houston_store::claim::ClaimedRun;

use crate::drive::DriveOutcome;
use crate::engine::Engine;
use crate::error::Interrupted;
use crate::run_driver::RunDriver;

impl RunDriver<'_> {
    /// Handles a failed model call: schedules the next attempt, or ends the run if there is none.
    pub(crate) async fn fail(&mut self, error: &ModelError) -> Result<DriveOutcome, Interrupted> {
        let now = self.now();
        let since = self.claimed.error.as_ref().and_then(ErrorMessage::since).unwrap_or(now);
        let run = FailedRun { failed: self.claimed.failed_attempts, since, now };
        match self.engine.config.delayed.next_attempt(error, &run, self.engine.random_fraction()) {
            Some(planned) => self.wait(error, planned, since).await,
            None => self.give_up(error).await,
        }
    }

    /// Releases the run until its next attempt. The event makes streams take back the text of this attempt.
    async fn wait(
        &mut self,
        error: &ModelError,
        PlannedRetry { at, counts }: PlannedRetry,
        since: chrono::DateTime<chrono::Utc>,
    ) -> Result<DriveOutcome, Interrupted> {
        tracing::warn!(%error, retry_at = %at, counts, "the model failed; the run is retried later");
        let of = self.engine.config.delayed.attempts(error);
        // More failures than attempts are possible only while the breaker is open, which uses up none.
        let attempt = (self.claimed.failed_attempts + 1).min(of);
        let retry = PendingRetry { attempt, of, retry_at: at, since };
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        show_error(&mut step, &ErrorMessage::waiting(self.claimed.run, error, &retry));
        let event = Event::RetryScheduled {
            attempt,
            of,
            retry_at: at,
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            iteration: self.open_step,
        };
        let ending = self.new_ending(RunStatus::Retrying, Some(error));
        step.transition = RunTransition::Retry { event, at, counts, ending };
        let done = self.commit(step).await?;
        // A run that was cancelled meanwhile is due at once.
        let due = if done.cancel_seq.is_some() { self.now() } else { at };
        Ok(DriveOutcome::Retrying {
            after: (due - self.now()).to_std().unwrap_or_default(),
            lane: self.lane(),
        })
    }

    /// Ends the run as failed: no attempt is left.
    async fn give_up(&mut self, error: &ModelError) -> Result<DriveOutcome, Interrupted> {
        tracing::warn!(%error, "the model failed; no attempt is left");
        let status = RunStatus::Failed;
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        show_error(
            &mut step,
            &ErrorMessage::permanent(self.claimed.run, error.code.as_str(), user_text(error.code.as_str())),
        );
        step.transition = RunTransition::Terminate {
            event: self.run_finished(status, Some(error)),
            ending: self.new_ending(status, Some(error)),
        };
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }

    /// Gives up a message whose workers died too often: it becomes a dead letter.
    pub(crate) async fn dead_letter(&mut self) -> Result<DriveOutcome, Interrupted> {
        let (deaths, claims) = (self.claimed.deaths, self.claimed.claims);
        tracing::error!(run = %self.claimed.run, deaths, claims, "message given up");
        let status = RunStatus::DeadLettered;
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        let text = status.notice().unwrap_or_default();
        show_error(&mut step, &ErrorMessage::permanent(self.claimed.run, "DEAD_LETTERED", text));
        step.transition = RunTransition::Terminate {
            event: self.run_finished(status, None),
            ending: self.new_ending(status, None),
        };
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }

    /// Marks the run's error message as settled, once the model has answered again or the run ends. Does nothing if the run
    /// has no error message.
    pub(crate) fn settle_error_message(&mut self, step: &mut Step) {
        let ending = self.ending_status(&step.transition);
        let answered = step.entries.iter().any(|entry| entry.role == Role::Assistant);
        if matches!(ending, Some(RunStatus::Failed | RunStatus::DeadLettered))
            || !(answered || ending.is_some())
        {
            return;
        }
        if let Some(error) = self.claimed.error.take() {
            show_error(step, &error.settled(ending.is_none_or(RunStatus::answers)));
        }
    }
}

impl Engine {
    /// A random number from 0 to 1, for jitter.
    pub(crate) fn random_fraction(&self) -> f64 {
        let mut random = [0; 4];
        self.ids.fill(&mut random);
        f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX)
    }
}

/// Adds the run's error message to a step, or changes it, with its event.
pub(crate) fn show_error(step: &mut Step, error: &ErrorMessage) {
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

/// A step that ends a run whose kind this process does not have.
pub(crate) fn refusal(engine: &Engine, claimed: &ClaimedRun, status: RunStatus, text: String) -> Step {
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
    show_error(&mut step, &error);
    step
}
