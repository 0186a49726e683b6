//! Claiming a run, driving it, and releasing its lock if that fails.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use houston_domain::event::Live;
use houston_domain::id::{AgentableId, RunToken};
use houston_store::claim::{ClaimedRun, CrashPolicy};
use tracing::Instrument;

use crate::engine::Engine;
use crate::error::Interrupted;
use crate::holder::Holder;
use crate::run::driver::{DriveOutcome, Driven, drive_claimed};

/// Attempts to claim a run while Postgres fails. After that the sweep finds the run.
const MAX_CLAIM_TRIES: u32 = 5;
/// The longest pause between two of them.
const MAX_CLAIM_PAUSE: Duration = Duration::from_millis(500);

/// What a run panicked with.
type Panic = Box<dyn Any + Send>;

impl Engine {
    /// Claims the open run of `agentable` and drives it to its end, its next attempt, or a hand-over.
    ///
    /// # Errors
    /// [`houston_store::Error`] when Postgres refuses a statement and waiting does not help. The lock is released first, so
    /// another worker can try.
    pub async fn drive(
        &self,
        agentable: AgentableId,
        holder: &Holder,
    ) -> Result<DriveOutcome, houston_store::Error> {
        if holder.lost.is_cancelled() || holder.drain.is_cancelled() {
            return Ok(DriveOutcome::NotClaimed);
        }
        let token: RunToken = self.services.ids.next();
        // Boxed, and so are the calls below: a run that waits should not hold the memory for its claim or its release.
        let driven = match Box::pin(self.claim(agentable, holder, token)).await? {
            Some(claimed) => self.drive_claimed(claimed, holder),
            None => return Ok(DriveOutcome::NotClaimed),
        };
        match driven.await {
            Ok(Ok(Driven { outcome, wants_title })) => {
                if wants_title {
                    self.titles().request(agentable);
                }
                Ok(outcome)
            }
            Ok(Err(Interrupted::Lost)) => {
                // If a late renewal kept the lease, no other worker may take the run until this one releases it. If
                // another worker did take over, the lock has another token and this changes nothing.
                if !holder.lost.is_cancelled() {
                    Box::pin(self.abandon(agentable, token, holder, false)).await;
                }
                Ok(DriveOutcome::Lost)
            }
            Ok(Err(Interrupted::Landed)) => Ok(DriveOutcome::HandedOver),
            Ok(Err(Interrupted::Store(error))) => {
                Box::pin(self.abandon(agentable, token, holder, true)).await;
                Err(error)
            }
            Err(_panic) => {
                tracing::error!(%agentable, "a run panicked");
                Box::pin(self.abandon(agentable, token, holder, true)).await;
                Ok(DriveOutcome::Lost)
            }
        }
    }

    /// Claims the run, with further attempts while Postgres is unreachable: a hint is delivered only once.
    async fn claim(
        &self,
        agentable: AgentableId,
        holder: &Holder,
        token: RunToken,
    ) -> houston_store::Result<Option<ClaimedRun>> {
        let grace = Duration::from_millis(self.services.config.doubt_ms);
        let crashes = CrashPolicy { max: self.services.config.max_crashes, grace };
        let mut tries = 0;
        loop {
            let message = self.services.ids.beside(agentable);
            let error = match self.store.claim_run(agentable, holder.worker, token, message, crashes).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => error,
            };
            // The claim may have succeeded without its response. This waits until Postgres is back.
            self.abandon(agentable, token, holder, false).await;
            tries += 1;
            let is_over = holder.lost.is_cancelled() || holder.drain.is_cancelled();
            if is_over || tries == MAX_CLAIM_TRIES || !error.is_transient() {
                return Err(error);
            }
            tracing::debug!(%error, "could not claim a run; trying again");
            // Random pause: many claims have waited for Postgres and continue at the same moment.
            tokio::time::sleep(MAX_CLAIM_PAUSE.mul_f64(self.services.random_fraction())).await;
        }
    }

    /// Releases the lock of a run: while this worker is alive, no other worker could take it. `broke_down`: driving the run
    /// failed, which counts like the death of a worker.
    async fn abandon(&self, agentable: AgentableId, token: RunToken, holder: &Holder, broke_down: bool) {
        let mut pause = Duration::from_millis(50);
        while let Err(error) = self.store.abandon(agentable, token, broke_down).await {
            if error.is_transient() {
                tracing::debug!(%error, "could not release a run; trying again");
            } else {
                tracing::warn!(%error, "could not release a run; trying again");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(2)),
                () = holder.lost.cancelled() => return,
            }
        }
    }

    /// Drives the run in a future of its own, whose panics are caught.
    fn drive_claimed<'d>(
        &'d self,
        claimed: ClaimedRun,
        holder: &'d Holder,
    ) -> impl Future<Output = Result<Result<Driven, Interrupted>, Panic>> + 'd {
        let agentable = claimed.fence.agentable;
        self.services.bus.publish(agentable, Live::Committed(vec![claimed.event.clone()]));
        let span = tracing::info_span!("engine.run.drive", run.id = %claimed.run, attempt = claimed.attempt);
        let driven = drive_claimed(&self.store, &self.services, holder, claimed);
        Box::pin(AssertUnwindSafe(driven).catch_unwind()).instrument(span)
    }
}
