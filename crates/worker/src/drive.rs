//! Drives runs in the slots of the worker: those of hints, and those that start when their messages are posted in the same
//! process ([`houston_store::direct_start`]). Says what follows a run that was not driven to its end.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use houston_domain::id::AgentableId;
use houston_engine::{DriveOutcome, Engine, Holder};
use houston_queue::{Hint, Intake, Lane, LocalHints, Slot};
use houston_store::claim::{ClaimRequest, ClaimedRun};
use houston_store::direct_start::{DirectSlot, DirectWorker};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::lease::Current;
use crate::trial::Trials;

/// The longest time for which a timer is set for a run that waits. The sweep finds the others when their time has come; there
/// may be many of them.
const MAX_TIMER: Duration = Duration::from_secs(60);

/// Starts runs without hints, in the slots that hints use.
pub(crate) struct DirectStarts {
    pub(crate) engine: Arc<Engine>,
    pub(crate) current: Current,
    pub(crate) intake: Intake,
    pub(crate) retry_hints: RetryHints,
    /// The runs that are driven.
    pub(crate) runs: TaskTracker,
    /// Itself, for its slots.
    pub(crate) this: Weak<Self>,
}

impl DirectStarts {
    /// Handles one hint: claims and drives the agentable's run, if there is one.
    pub(crate) async fn handle(&self, hint: Hint) {
        let holder = self.current.borrow().clone();
        let Some(holder) = holder else { return };
        if houston_faults::fault!("C5").is_err() {
            return;
        }
        let outcome = self.engine.drive(hint.agentable(), &holder).await;
        finish(outcome, hint, &self.retry_hints).await;
    }
}

impl DirectWorker for DirectStarts {
    fn slot(&self, agentable: AgentableId) -> Option<Box<dyn DirectSlot>> {
        let worker = self.this.upgrade()?;
        let holder = self.current.borrow().clone()?;
        if holder.lost.is_cancelled() || holder.drain.is_cancelled() {
            return None;
        }
        let slot = self.intake.try_slot(Lane::Interactive)?;
        let request = self.engine.claim_request(agentable, &holder);
        Some(Box::new(FreeSlot { worker, holder, request, _slot: slot }))
    }
}

struct FreeSlot {
    worker: Arc<DirectStarts>,
    holder: Holder,
    request: ClaimRequest,
    _slot: Slot,
}

impl FreeSlot {
    /// Runs `work` in a task that keeps the slot.
    fn spawn<F>(self: Box<Self>, work: impl FnOnce(Box<Self>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let agentable = self.request.agentable;
        let runs = self.worker.runs.clone();
        runs.spawn(async move {
            if AssertUnwindSafe(async { work(self).await }).catch_unwind().await.is_err() {
                tracing::error!(%agentable, "a run that was started directly panicked");
            }
        });
    }
}

impl DirectSlot for FreeSlot {
    fn request(&self) -> ClaimRequest {
        self.request
    }

    fn start(self: Box<Self>, run: ClaimedRun) {
        self.spawn(|slot| async move {
            let outcome = slot.worker.engine.drive_claimed(run, &slot.holder).await;
            finish(outcome, Hint::run(slot.request.agentable), &slot.worker.retry_hints).await;
        });
    }

    fn claim(self: Box<Self>) {
        self.spawn(|slot| async move {
            let agentable = slot.request.agentable;
            let outcome = slot.worker.engine.drive(agentable, &slot.holder).await;
            finish(outcome, Hint::run(agentable), &slot.worker.retry_hints).await;
        });
    }

    fn abandon(self: Box<Self>) {
        self.spawn(|slot| async move {
            let ClaimRequest { agentable, token, .. } = slot.request;
            slot.worker.engine.abandon(agentable, token, &slot.holder, false).await;
            // The sweep finds the run if the worker accepts none.
            slot.worker.retry_hints.local.try_send(Lane::Interactive, Hint::run(agentable));
        });
    }
}

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
    fn send_after(&self, wait: Duration, lane: Lane, hint: Hint) {
        // Slightly late rather than early: the database's clock decides what is due.
        let wait = wait + Duration::from_millis(5);
        let (local, stop) = (self.local.clone(), self.stop.clone());
        self.tracker.spawn(async move {
            if tokio::time::timeout(wait, stop.cancelled()).await.is_err() {
                local.try_send(lane, hint);
            }
        });
    }
}

/// Handles the outcome of a run.
async fn finish(outcome: Result<DriveOutcome, houston_store::Error>, hint: Hint, retry_hints: &RetryHints) {
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
