//! The runs that this worker starts when their messages are posted in the same process ([`houston_store::direct_start`]).

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use houston_domain::id::AgentableId;
use houston_engine::{Engine, Holder};
use houston_queue::{Hint, Intake, Lane, Slot};
use houston_store::claim::{ClaimRequest, ClaimedRun};
use houston_store::direct_start::{DirectSlot, DirectWorker};
use tokio_util::task::TaskTracker;

use crate::lease::Current;
use crate::outcome::{RetryHints, finish};

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
            slot.worker.retry_hints.send(Lane::Interactive, Hint::run(agentable));
        });
    }
}
