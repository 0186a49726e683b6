//! Claiming a run, driving it, and releasing its lock if that fails.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use houston_domain::event::Live;
use houston_domain::id::{AgentableId, RunToken};
use houston_queue::BegunRun;
use houston_store::claim::{Claim, ClaimRequest, ClaimedRun, CrashPolicy, PutOff, Trial};
use houston_store::run_context::ContextLimits;
use tracing::Instrument;

use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Interrupted, Result};
use crate::holder::Holder;
use crate::meter::Meter;
use crate::run::driver::{DriveOutcome, drive_claimed};
use crate::run::services::Services;

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
    pub fn drive(
        &self,
        agentable: AgentableId,
        holder: &Holder,
    ) -> impl Future<Output = Result<DriveOutcome, houston_store::Error>> + Send {
        // No future of its own around the other: runs that wait hold it.
        self.drive_on_trial(agentable, holder, self.trial)
    }

    /// The same; `trial` decides if so many workers died with the run that it may have to be given up.
    ///
    /// # Errors
    /// Those of [`drive`](Self::drive).
    pub async fn drive_on_trial(
        &self,
        agentable: AgentableId,
        holder: &Holder,
        trial: Trial,
    ) -> Result<DriveOutcome, houston_store::Error> {
        if holder.lost.is_cancelled() || holder.drain.is_cancelled() {
            return Ok(DriveOutcome::NotClaimed);
        }
        // Boxed, and so are the calls below: a run that waits should not hold the memory for its claim or its release.
        let driven = match Box::pin(self.claim(agentable, holder, trial)).await? {
            Claim::Run(claimed) => self.drive_claimed(*claimed, holder),
            Claim::PutOff(put_off) => return Ok(self.put_off(agentable, *put_off)),
            Claim::Accused => return Ok(DriveOutcome::Accused),
            Claim::Postponed { kind, wait } => {
                return Ok(DriveOutcome::Waiting { after: Some(wait), lane: self.services.lane(&kind) });
            }
            Claim::Nothing => return Ok(DriveOutcome::NotClaimed),
        };
        driven.await
    }

    /// What [`drive`](Self::drive) asks of the store.
    pub fn claim_request(&self, agentable: AgentableId, holder: &Holder) -> ClaimRequest {
        let Config { doubt_ms, max_crashes, context, .. } = &self.services.config;
        let grace = Duration::from_millis(*doubt_ms);
        ClaimRequest {
            agentable,
            worker: holder.worker,
            token: self.services.ids.next(),
            next_message: self.services.ids.beside(agentable),
            // A fifth longer: the grace has passed when the run begins to wait for others.
            crashes: CrashPolicy { max: *max_crashes, grace, patience: grace + grace / 5 },
            trial: self.trial,
            context: Some(ContextLimits { notes: context.notes, prompt: context.prompt }),
        }
    }

    /// Claims the run, with further attempts while Postgres is unreachable: a hint is delivered only once.
    async fn claim(
        &self,
        agentable: AgentableId,
        holder: &Holder,
        trial: Trial,
    ) -> houston_store::Result<Claim> {
        let mut tries = 0;
        loop {
            let request = ClaimRequest { trial, ..self.claim_request(agentable, holder) };
            let error = match self.store.claim(request).await {
                Ok(claimed) => return Ok(claimed),
                Err(error) => error,
            };
            // The claim may have succeeded without its response. This waits until Postgres is back.
            self.abandon(agentable, request.token, holder, false).await;
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

    /// Publishes when the run begins, and asks for a hint then.
    fn put_off(&self, agentable: AgentableId, put_off: PutOff) -> DriveOutcome {
        tracing::info!(%agentable, until = %put_off.until, "a run waits: the user's limit of tokens is used up");
        self.services.bus.publish(agentable, Live::Committed(vec![put_off.event]));
        DriveOutcome::Waiting { after: Some(put_off.wait), lane: self.services.lane(&put_off.kind) }
    }

    /// Releases the lock of a run, if it was claimed with `token`: while this worker is alive, no other worker could take
    /// it. `broke_down`: driving the run failed, which counts like the death of a worker. Waits until Postgres answers, or
    /// the lease is lost.
    pub async fn abandon(&self, agentable: AgentableId, token: RunToken, holder: &Holder, broke_down: bool) {
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

    /// Drives a claimed run to its end, its next attempt, or a hand-over.
    ///
    /// # Errors
    /// Those of [`drive`](Self::drive).
    pub fn drive_claimed<'d>(
        &'d self,
        mut claimed: ClaimedRun,
        holder: &'d Holder,
    ) -> impl Future<Output = Result<DriveOutcome, houston_store::Error>> + Send + 'd {
        let (agentable, token) = (claimed.fence.agentable, claimed.fence.token);
        let mut events = std::mem::take(&mut claimed.posted);
        let Services { bus, metrics, spans, .. } = &self.services;
        // Its first event is among those that were posted with the claim.
        if let Some(first) = events.first() {
            let kind = claimed.kind.clone();
            let begun = BegunRun { tenant: claimed.tenant, kind, run: claimed.run, first_seq: first.seq };
            bus.keep(agentable, begun);
        }
        events.push(claimed.event.clone());
        bus.publish(agentable, Live::Committed(events));
        let meter = Meter::start(metrics, spans, &claimed, self.services.lane(&claimed.kind));
        let (agent, trace_id) = (meter.agent(&claimed), meter.trace_id());
        let span = tracing::info_span!("engine.run.drive", run.id = %claimed.run, attempt = claimed.attempt, trace_id);
        let booking = claimed.booked.map(|tokens| Box::pin(self.store.book_tokens(claimed.user, tokens)));
        // A future of its own, whose panics are caught.
        let driven = AssertUnwindSafe(drive_claimed(&self.store, &self.services, holder, claimed, agent))
            .catch_unwind();
        let driven = Box::pin(driven).instrument(span);
        async move {
            if let Some(booking) = booking {
                booking.await;
            }
            let outcome = self.end_drive((agentable, token), holder, driven.await).await;
            meter.end(&self.services.metrics, agentable, outcome.as_ref().copied());
            outcome
        }
    }

    /// Releases the lock of a run whose drive ended without doing so.
    async fn end_drive(
        &self,
        (agentable, token): (AgentableId, RunToken),
        holder: &Holder,
        driven: Result<Result<DriveOutcome>, Panic>,
    ) -> Result<DriveOutcome, houston_store::Error> {
        match driven {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(Interrupted::Lost)) => {
                // If a late renewal kept the lease, no other worker may take the run until this one releases it. If
                // another worker did take over, the lock has another token and this changes nothing.
                if !holder.lost.is_cancelled() {
                    Box::pin(self.abandon(agentable, token, holder, false)).await;
                }
                Ok(DriveOutcome::Lost)
            }
            Ok(Err(Interrupted::Landed)) => Ok(DriveOutcome::HandedOver),
            // The drive of a plan reads it again by itself; elsewhere, the next claim does.
            Ok(Err(Interrupted::PlanChanged)) => {
                Box::pin(self.abandon(agentable, token, holder, false)).await;
                Ok(DriveOutcome::Lost)
            }
            Ok(Err(Interrupted::Store(error))) => {
                Box::pin(self.abandon(agentable, token, holder, true)).await;
                Err(error)
            }
            Err(_panic) => {
                tracing::error!(%agentable, "a run panicked");
                Box::pin(self.abandon(agentable, token, holder, true)).await;
                Ok(DriveOutcome::Panicked)
            }
        }
    }
}
