//! The loop around one claimed run.

use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use houston_domain::agent::step::Next;
use houston_domain::event::Live;
use houston_domain::id::{AgentableId, RunToken};
use houston_domain::run::RunStatus;
use houston_queue::Lane;
use houston_store::claim::{Claimed, Crashes};
use houston_store::step::Commit;
use tracing::Instrument;

use crate::context::RunDriver;
use crate::engine::Engine;
use crate::error::Interrupted;
use crate::failure::refusal;
use crate::holder::Holder;

/// Claims of one hint, while Postgres fails; after that the sweep finds the run.
const CLAIMS: u32 = 5;
/// The longest pause before the next.
const CLAIMS_WITHIN: Duration = Duration::from_millis(500);

/// How a drive ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveOutcome {
    /// There was nothing to claim: another holds it, nothing is open, or the retry is not due.
    NotClaimed,
    /// The run is over.
    Ended(RunStatus),
    /// The next attempt is due.
    Retrying {
        /// So long from now on, by the database's clock.
        after: Duration,
        /// The lane of the agentable's kind.
        lane: Lane,
    },
    /// Another worker goes on.
    HandedOver,
    /// The lock was lost; whoever has it goes on.
    Lost,
}

impl Engine {
    /// Claims the open run of `agentable` and drives it to its end, its next attempt, or a hand-over.
    ///
    /// # Errors
    /// When Postgres refuses and waiting does not mend it. The lease will run out, and another worker tries.
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
        // Boxed: a held run should cost its state, not the deepest call it may make.
        let driving = AssertUnwindSafe(self.drive_claimed(claimed, holder)).catch_unwind();
        match Box::pin(driving).instrument(span).await {
            Ok(Ok(driven)) => Ok(driven),
            Ok(Err(Interrupted::Lost)) => {
                // A renewal that arrives at the last moment keeps the lease: then nobody else may take the run
                // before this worker has let go of it. Taken over, the lock has another token.
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

    /// Claims, and tries again when Postgres was away for a moment: a hint is rung once.
    async fn claim(
        &self,
        agentable: AgentableId,
        holder: &Holder,
        token: RunToken,
    ) -> houston_store::Result<Option<Claimed>> {
        let doubt = Duration::from_millis(self.config.doubt_ms);
        let crashes = Crashes { max: self.config.max_crashes, doubt };
        let mut tries = 0;
        loop {
            let message = self.ids.next();
            let error = match self.store.claim_run(agentable, holder.worker, token, message, crashes).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => error,
            };
            // It may have been granted all the same. This waits until Postgres is back.
            self.abandon(agentable, token, holder, false).await;
            tries += 1;
            let is_over = holder.lost.is_cancelled() || holder.drain.is_cancelled();
            if is_over || tries == CLAIMS || !error.is_transient() {
                return Err(error);
            }
            tracing::debug!(%error, "could not claim a run, trying again");
            // All that waited for Postgres are here at once.
            tokio::time::sleep(CLAIMS_WITHIN.mul_f64(self.chance())).await;
        }
    }

    /// Lets go of a run: while this worker lives, nobody else could take it. `broke_down`: because of the run.
    async fn abandon(&self, agentable: AgentableId, token: RunToken, holder: &Holder, broke_down: bool) {
        let mut pause = Duration::from_millis(50);
        while let Err(error) = self.store.abandon(agentable, token, broke_down).await {
            if error.is_transient() {
                tracing::debug!(%error, "could not let go of a run, trying again");
            } else {
                tracing::warn!(%error, "could not let go of a run, trying again");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(2)),
                () = holder.lost.cancelled() => return,
            }
        }
    }

    async fn drive_claimed(&self, claimed: Claimed, holder: &Holder) -> Result<DriveOutcome, Interrupted> {
        houston_faults::fault!("C6")?;
        let entered = self.live.enter(claimed.fence.agentable, claimed.run, self.bus.clone());
        if claimed.cancel_seq.is_some() {
            entered.live.cancel.cancel();
        }
        let fence = claimed.fence;
        let Some(setup) = self.setup(&claimed.kind).cloned() else {
            return Box::pin(self.refuse(&claimed, holder)).await;
        };
        let mut driving = Box::pin(RunDriver::load(self, holder, claimed, entered, setup)).await?;
        let mut first = true;
        loop {
            match driving.go(first).await {
                Err(Interrupted::Landed) => {
                    if !driving.retrying(|store| Box::pin(async move { store.is_held(&fence).await })).await?
                    {
                        return Ok(DriveOutcome::HandedOver);
                    }
                    Box::pin(driving.reload()).await?;
                }
                other => {
                    if driving.wants_title && matches!(other, Ok(DriveOutcome::Ended(_))) {
                        self.titles.want(fence.agentable);
                    }
                    return other;
                }
            }
            first = false;
        }
    }
}

impl Engine {
    /// Ends a run whose kind nobody knows here, and says so to its user.
    async fn refuse(&self, claimed: &Claimed, holder: &Holder) -> Result<DriveOutcome, Interrupted> {
        let text = format!("There is no agent type `{}`: its file is missing in jobs/agents.", claimed.kind);
        tracing::error!(kind = claimed.kind, "no agent type of this name: add jobs/agents/<kind>.toml");
        let status = RunStatus::Failed;
        let step = refusal(self, claimed, status, text);
        if let Commit::Done(done) = self.store.commit(&claimed.fence, &step).await? {
            self.ring_next(holder, &done.waiting);
        }
        self.bus.publish(claimed.fence.agentable, Live::Nudge);
        Ok(DriveOutcome::Ended(status))
    }
}

impl RunDriver<'_> {
    /// Whether too many workers died with the run.
    pub(crate) fn is_given_up(&self) -> bool {
        let config = &self.engine.config;
        self.claimed.deaths >= config.max_crashes || self.claimed.claims > config.max_claims
    }

    /// Drives until something ends the drive.
    async fn go(&mut self, first: bool) -> Result<DriveOutcome, Interrupted> {
        if first {
            if self.is_given_up() {
                return Box::pin(self.dead_letter()).await;
            }
            if let Some(driven) = Box::pin(self.stop_unserved()).await? {
                return Ok(driven);
            }
            // What was posted after somebody asked to end the run is for the next one.
            let reads = self.claimed.attempt > 1 && !self.entered.live.cancel.is_cancelled();
            if reads && !matches!(self.run.next(self.now()), Next::CallTools(_)) {
                Box::pin(self.read_messages()).await?;
            }
        }
        loop {
            // The clock knows sooner than the thread that renews: after a long sleep both wake up at once.
            if self.holder.lost.is_cancelled() || !(self.holder.trusted)() {
                return Err(Interrupted::Lost);
            }
            if self.entered.live.cancel.is_cancelled() {
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
            if let ControlFlow::Break(driven) = flow {
                return Ok(driven);
            }
        }
    }
}
