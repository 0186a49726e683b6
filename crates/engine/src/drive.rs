//! Claiming a run, and the loop that drives it.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use houston_domain::agent::step::Next;
use houston_domain::event::Live;
use houston_domain::id::{AgentableId, RunToken};
use houston_domain::run::RunStatus;
use houston_queue::Lane;
use houston_store::claim::{ClaimedRun, CrashPolicy};
use houston_store::step::Commit;
use tracing::Instrument;

use crate::engine::Engine;
use crate::error::Interrupted;
use crate::failure::refusal;
use crate::holder::Holder;
use crate::run_driver::RunDriver;

/// Attempts to claim a run while Postgres fails. After that the sweep finds the run.
const MAX_CLAIM_TRIES: u32 = 5;
/// The longest pause between two of them.
const MAX_CLAIM_PAUSE: Duration = Duration::from_millis(500);

/// How a drive ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveOutcome {
    /// There was nothing to claim: another worker has the lock, no run is open, or its retry is not due.
    NotClaimed,
    /// The run ended with this status.
    Ended(RunStatus),
    /// The run failed and has another attempt.
    Retrying {
        /// The time until that attempt is due, by the database's clock.
        after: Duration,
        /// The lane of the agentable's kind.
        lane: Lane,
    },
    /// The run was released; another worker continues it.
    HandedOver,
    /// The lock was lost; the worker that has it continues the run.
    Lost,
}

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
        let token: RunToken = self.ids.next();
        let Some(claimed) = self.claim(agentable, holder, token).await? else {
            return Ok(DriveOutcome::NotClaimed);
        };
        self.bus.publish(agentable, Live::Committed(vec![claimed.event.clone()]));
        let span = tracing::info_span!("engine.run.drive", run.id = %claimed.run, attempt = claimed.attempt);
        // Boxed: a run that waits should hold its own state, not the size of its deepest call.
        let driver = AssertUnwindSafe(self.drive_claimed(claimed, holder)).catch_unwind();
        match Box::pin(driver).instrument(span).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(Interrupted::Lost)) => {
                // If a late renewal kept the lease, no other worker may take the run until this one releases it. If
                // another worker did take over, the lock has another token and this changes nothing.
                if !holder.lost.is_cancelled() {
                    self.abandon(agentable, token, holder, false).await;
                }
                Ok(DriveOutcome::Lost)
            }
            Ok(Err(Interrupted::Landed)) => Ok(DriveOutcome::HandedOver),
            Ok(Err(Interrupted::Store(error))) => {
                self.abandon(agentable, token, holder, true).await;
                Err(error)
            }
            Err(_panic) => {
                tracing::error!(%agentable, "a run panicked");
                self.abandon(agentable, token, holder, true).await;
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
        let grace = Duration::from_millis(self.config.doubt_ms);
        let crashes = CrashPolicy { max: self.config.max_crashes, grace };
        let mut tries = 0;
        loop {
            let message = self.ids.next();
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
            tokio::time::sleep(MAX_CLAIM_PAUSE.mul_f64(self.random_fraction())).await;
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

    async fn drive_claimed(&self, claimed: ClaimedRun, holder: &Holder) -> Result<DriveOutcome, Interrupted> {
        houston_faults::fault!("C6")?;
        let registration = self.live.register(claimed.fence.agentable, claimed.run, self.bus.clone());
        if claimed.cancel_seq.is_some() {
            registration.live.cancel.cancel();
        }
        let fence = claimed.fence;
        let Some(setup) = self.setup(&claimed.kind).cloned() else {
            return Box::pin(self.refuse(&claimed, holder)).await;
        };
        let mut driver = Box::pin(RunDriver::load(self, holder, claimed, registration, setup)).await?;
        let mut first = true;
        loop {
            match driver.drive_until_end(first).await {
                Err(Interrupted::Landed) => {
                    if !driver.retrying(|store| Box::pin(async move { store.is_held(&fence).await })).await? {
                        return Ok(DriveOutcome::HandedOver);
                    }
                    Box::pin(driver.reload()).await?;
                }
                other => {
                    if driver.wants_title && matches!(other, Ok(DriveOutcome::Ended(_))) {
                        self.titles.request(fence.agentable);
                    }
                    return other;
                }
            }
            first = false;
        }
    }
}

impl Engine {
    /// Ends a run whose kind has no agent type in this process, with an error message in its thread.
    async fn refuse(&self, claimed: &ClaimedRun, holder: &Holder) -> Result<DriveOutcome, Interrupted> {
        let text = format!("There is no agent type `{}`: its file is missing in jobs/agents.", claimed.kind);
        tracing::error!(kind = claimed.kind, "no agent type of this name: add jobs/agents/<kind>.toml");
        let status = RunStatus::Failed;
        let step = refusal(self, claimed, status, text);
        if let Commit::Done(done) = self.store.commit(&claimed.fence, &step).await? {
            self.send_hints(holder, &done.waiting);
        }
        self.bus.publish(claimed.fence.agentable, Live::Nudge);
        Ok(DriveOutcome::Ended(status))
    }
}

impl RunDriver<'_> {
    /// Whether the message is to be given up: too many workers died with the run, or lost it.
    pub(crate) fn must_be_given_up(&self) -> bool {
        let config = &self.engine.config;
        self.claimed.deaths >= config.max_crashes || self.claimed.claims > config.max_claims
    }

    /// Executes steps until the run ends, waits for a retry, or is released. `first` is false when
    /// it is called again after a reload.
    async fn drive_until_end(&mut self, first: bool) -> Result<DriveOutcome, Interrupted> {
        if first {
            if self.must_be_given_up() {
                return Box::pin(self.dead_letter()).await;
            }
            if let Some(outcome) = Box::pin(self.stop_if_unavailable()).await? {
                return Ok(outcome);
            }
            // Messages posted after a cancel request are for the next run.
            let reads = self.claimed.attempt > 1 && !self.registration.live.cancel.is_cancelled();
            if reads && !matches!(self.run.next(self.now()), Next::CallTools(_)) {
                Box::pin(self.read_messages()).await?;
            }
        }
        loop {
            // Checked by the clock as well: after a suspend this thread may wake up before the one that renews the lease.
            if self.holder.lost.is_cancelled() || !(self.holder.trusted)() {
                return Err(Interrupted::Lost);
            }
            if self.registration.live.cancel.is_cancelled() {
                return Box::pin(self.cancel()).await;
            }
            let flow = match self.run.next(self.now()) {
                Next::CallModel if self.holder.drain.is_cancelled() => {
                    return Box::pin(self.hand_over()).await;
                }
                Next::CallModel => self.model_step().await?,
                Next::CallTools(calls) => Box::pin(self.resume_tools(calls)).await?,
                Next::Done(status) => Box::pin(self.finish(status)).await?,
            };
            if let ControlFlow::Break(outcome) = flow {
                return Ok(outcome);
            }
        }
    }
}
