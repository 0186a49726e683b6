//! What follows a run that was not driven to its end.

use std::sync::Arc;
use std::time::Duration;

use houston_engine::DriveOutcome;
use houston_queue::{Hint, Lane, LocalHints};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::trial::Trials;

/// The longest time for which a timer is set for a run that waits. The sweep finds the others when their time has come; there
/// may be many of them.
const MAX_TIMER: Duration = Duration::from_secs(60);

/// What follows a run that was not driven to its end: sends a hint when a retry is due, and tries it alone if it may kill its
/// workers. The sweep would find the run as well, but later, and the user sees a countdown.
#[derive(Clone)]
pub(crate) struct RetryHints {
    pub(crate) local: LocalHints,
    pub(crate) trials: Option<Arc<Trials>>,
    pub(crate) tracker: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl RetryHints {
    /// Sends a hint at once. The sweep finds the run if the worker accepts none.
    pub(crate) fn send(&self, lane: Lane, hint: Hint) {
        let _ = self.local.try_send(lane, hint);
    }

    fn send_after(&self, wait: Duration, lane: Lane, hint: Hint) {
        // Slightly late rather than early: the database's clock decides what is due.
        let wait = wait + Duration::from_millis(5);
        let (local, stop) = (self.local.clone(), self.stop.clone());
        self.tracker.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {
                    let _ = local.try_send(lane, hint);
                }
            }
        });
    }
}

/// Handles the outcome of a run.
pub(crate) async fn finish(
    outcome: Result<DriveOutcome, houston_store::Error>,
    hint: Hint,
    retry_hints: &RetryHints,
) {
    if houston_faults::fault!("C15").is_err() {
        return;
    }
    let outcome = match (outcome, &retry_hints.trials) {
        (Ok(DriveOutcome::Accused), Some(trials)) => Box::pin(trials.hold(hint.agentable())).await,
        (outcome, _) => outcome,
    };
    match outcome {
        Ok(DriveOutcome::Retrying { after, lane }) => retry_hints.send_after(after, lane, hint),
        Ok(DriveOutcome::Waiting { after: Some(after), lane }) if after <= MAX_TIMER => {
            retry_hints.send_after(after, lane, hint);
        }
        Ok(DriveOutcome::NotClaimed) => tracing::trace!(agentable = %hint.agentable(), "nothing to claim"),
        Ok(outcome) => tracing::debug!(agentable = %hint.agentable(), ?outcome, "drive ended"),
        Err(error) => tracing::warn!(agentable = %hint.agentable(), %error, "drive failed"),
    }
}
