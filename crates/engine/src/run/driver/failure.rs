//! Failures of a run: retry or give up. The user sees one error message per run: it counts down to the next attempt, is
//! marked as settled when that succeeds, or says that the run failed for good.

use chrono::{DateTime, Utc};
use houston_domain::error_message::{ErrorMessage, PendingRetry, user_text};
use houston_domain::event::Event;
use houston_domain::model::ModelError;
use houston_domain::retry::{FailedRun, PlannedRetry};
use houston_domain::run::RunStatus;
use houston_domain::step::RunTransition;

use super::ending::close_calls;
use super::{DriveOutcome, RunDriver};
use crate::error::Interrupted;
use crate::run::journal::show_error;
use crate::run::storage::RunStorage;

impl<S: RunStorage> RunDriver<'_, S> {
    /// Handles a failed model call: schedules the next attempt, or ends the run if there is none.
    pub(super) async fn fail(&mut self, error: &ModelError) -> Result<DriveOutcome, Interrupted> {
        self.journal.span.failed(error.code.as_str());
        let (now, services) = (self.journal.now(), self.journal.services);
        let since = self.journal.error.as_ref().and_then(ErrorMessage::since).unwrap_or(now);
        let run = FailedRun { failed: self.attempt.failed, since, now };
        match services.config.delayed.next_attempt(error, &run, services.random_fraction()) {
            Some(planned) => self.wait(error, planned, since).await,
            None => self.give_up(error).await,
        }
    }

    /// Releases the run until its next attempt. The event makes streams take back the text of this attempt.
    async fn wait(
        &mut self,
        error: &ModelError,
        PlannedRetry { at, counts }: PlannedRetry,
        since: DateTime<Utc>,
    ) -> Result<DriveOutcome, Interrupted> {
        tracing::warn!(%error, retry_at = %at, counts, "the model failed; the run is retried later");
        let of = self.journal.services.config.delayed.attempts(error);
        // More failures than attempts are possible only while the breaker is open, which uses up none.
        let attempt = (self.attempt.failed + 1).min(of);
        let retry = PendingRetry { attempt, of, retry_at: at, since };
        let mut step = self.journal.next_step();
        show_error(&mut step, &ErrorMessage::waiting(self.journal.run(), error, &retry, &self.journal.hung));
        let event = Event::RetryScheduled {
            attempt,
            of,
            retry_at: at,
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            iteration: self.journal.open_iteration,
        };
        let ending = self.journal.ending_by(RunStatus::Retrying, error);
        step.transition = RunTransition::Retry { event, at, counts, ending };
        let done = self.commit(step).await?;
        // A run that was cancelled meanwhile is due at once.
        let due = if done.cancel_seq.is_some() { self.journal.now() } else { at };
        Ok(DriveOutcome::Retrying {
            after: (due - self.journal.now()).to_std().unwrap_or_default(),
            lane: self.journal.lane,
        })
    }

    /// Ends the run as failed: no attempt is left.
    async fn give_up(&mut self, error: &ModelError) -> Result<DriveOutcome, Interrupted> {
        tracing::warn!(%error, "the model failed; no attempt is left");
        let code = error.code.as_str();
        self.end_unanswered(RunStatus::Failed, code, user_text(code), Some(error)).await
    }

    /// Gives up a message whose workers died too often: it becomes a dead letter.
    pub(super) async fn dead_letter(&mut self) -> Result<DriveOutcome, Interrupted> {
        let (deaths, claims) = (self.attempt.deaths, self.attempt.claims);
        tracing::error!(run = %self.journal.run(), deaths, claims, "message given up");
        self.journal.span.failed("DEAD_LETTERED");
        self.acquit_others().await?;
        let status = RunStatus::DeadLettered;
        self.end_unanswered(status, "DEAD_LETTERED", status.notice().unwrap_or_default(), None).await
    }

    /// Ends the run with an error message, which has `code` and `notice`.
    async fn end_unanswered(
        &mut self,
        status: RunStatus,
        code: &str,
        notice: &str,
        error: Option<&ModelError>,
    ) -> Result<DriveOutcome, Interrupted> {
        self.withdraw_submitted().await;
        let open = self.open_calls().await?;
        let mut step = self.journal.next_step();
        close_calls(&mut self.run, &mut step, status, open);
        show_error(&mut step, &ErrorMessage::permanent(self.journal.run(), code, notice));
        let code = error.map(|error| error.code.as_str().to_owned());
        step.transition = self.journal.terminated(status, code, error.map(|error| error.message.clone()));
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }
}
