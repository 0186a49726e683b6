//! Finds dead workers before their lease expires, and runs whose cancel request arrived neither over Redis nor by `NOTIFY`.
//!
//! A worker whose advisory lock is free may be alive: its connection broke, and it connects again. How long it is waited for
//! depends on who noticed. A neighbour that has not lost its own connection has seen a single one end, most likely with its
//! process: `grace_ms`. Otherwise all connections may have broken at once, and some workers take longer than others:
//! `suspect_ms`. A wrong guess is safe, because writes are fenced; it costs the model calls in flight.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::WorkerId;
use houston_faults::mutation::{self, Mutation};
use houston_store::RunStore;
use houston_store::lease::SuspectedWorker;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::SweepConfig;
use crate::lease::Current;
use crate::worker::Worker;

/// The last renewal of each suspected worker, and since when it has been suspected.
type Suspects = HashMap<WorkerId, (i64, Instant)>;

/// Who the reaper hears from, and whom it tells.
pub(crate) struct Reaper {
    pub(crate) worker: Arc<Worker>,
    pub(crate) current: Current,
    /// Notified when the worker that this one watches seems to be dead.
    pub(crate) neighbour_gone: Arc<Notify>,
    /// Notified when a worker was found dead.
    pub(crate) sweep: Arc<Notify>,
    pub(crate) stop: CancellationToken,
}

impl Reaper {
    /// Reaps until stopped.
    pub(crate) async fn run(self) {
        let SweepConfig { reap_every_ms, suspect_ms, grace_ms, .. } = self.worker.sweep;
        let [every, suspected, grace] = [reap_every_ms, suspect_ms, grace_ms].map(Duration::from_millis);
        let mut suspects = Suspects::new();
        let mut next = Instant::now() + every;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.neighbour_gone.notified() => {
                    self.reap(grace, &mut suspects).await;
                    tokio::time::sleep(grace).await;
                    self.reap(grace, &mut suspects).await;
                }
                () = tokio::time::sleep_until(next) => {
                    next = Instant::now() + every;
                    self.reap(suspected, &mut suspects).await;
                    self.cancel_runs().await;
                }
            }
        }
    }

    /// Reaps workers that were suspected for `wait`, and has the sweep find their runs.
    async fn reap(&self, wait: Duration, suspects: &mut Suspects) {
        match reap(&self.worker.store, self.worker.lease.settled(), wait, suspects).await {
            Ok(true) => self.sweep.notify_one(),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "could not look for dead workers"),
        }
    }

    /// Cancels the runs of this worker of which it did not hear.
    async fn cancel_runs(&self) {
        let holder = self.current.borrow().as_ref().map(|holder| holder.worker);
        if let Some(worker) = holder.filter(|_| !self.worker.engine.live().is_empty()) {
            for (agentable, run) in self.worker.store.cancelled_runs_of(worker).await.unwrap_or_default() {
                self.worker.engine.live().cancel(agentable, run);
            }
        }
    }
}

/// Reaps workers whose lease expired, and those suspected for `wait` without a renewal: a living worker whose connection broke
/// has reconnected and renewed before. Returns whether there were any.
async fn reap(
    store: &RunStore,
    settled: Duration,
    wait: Duration,
    suspects: &mut Suspects,
) -> houston_store::Result<bool> {
    let found = store.suspected_workers(settled).await?;
    let now = Instant::now();
    let since = |suspect: &SuspectedWorker| match suspects.get(&suspect.worker) {
        Some((beat, since)) if *beat == suspect.beat => *since,
        _ => now,
    };
    let next = found.iter().map(|suspect| (suspect.worker, (suspect.beat, since(suspect)))).collect();
    *suspects = next;
    // The time in which a worker is excused counts.
    let is_dead = |suspect: &&SuspectedWorker| {
        let has_waited = suspects.get(&suspect.worker).is_some_and(|(_, since)| now - *since >= wait);
        has_waited && !suspect.is_excused || mutation::is(Mutation::Takeover)
    };
    let confirmed: Vec<SuspectedWorker> = found.iter().filter(is_dead).copied().collect();
    if !confirmed.is_empty() {
        houston_faults::fault!("C16")?;
    }
    let reaped = store.reap(&confirmed).await?;
    for worker in &reaped {
        tracing::warn!(%worker, "worker is dead; other workers continue its runs");
    }
    Ok(!reaped.is_empty())
}
