//! Finds dead workers before their lease expires, and runs whose cancel request arrived neither over Redis nor by `NOTIFY`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::WorkerId;
use houston_engine::Engine;
use houston_store::RunStore;
use houston_store::lease::SuspectedWorker;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{LeaseConfig, SweepConfig};
use crate::lease::Current;

/// Periods of the reaper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Between two searches.
    every: Duration,
    /// Time after a restart of Postgres within which living workers have their advisory locks again.
    settled: Duration,
    /// How long a worker must have been suspected before it is reaped.
    suspected: Duration,
}

impl Times {
    pub(crate) fn of(sweep: SweepConfig, lease: LeaseConfig) -> Self {
        Self {
            every: Duration::from_millis(sweep.reap_every_ms),
            settled: lease.settled(),
            suspected: Duration::from_millis(sweep.suspect_ms),
        }
    }
}

/// The last renewal of each suspected worker, and since when it has been suspected.
type Suspects = HashMap<WorkerId, (i64, Instant)>;

/// Reaps until stopped; notifies `sweep` when a worker was found dead.
pub(crate) async fn run(
    store: RunStore,
    engine: Arc<Engine>,
    current: Current,
    times: Times,
    sweep: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut suspects = Suspects::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(times.every) => {}
        }
        match reap(&store, times, &mut suspects).await {
            Ok(true) => sweep.notify_one(),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "could not look for dead workers"),
        }
        let holder = current.borrow().as_ref().map(|holder| holder.worker);
        if let Some(worker) = holder.filter(|_| !engine.live().is_empty()) {
            for (agentable, run) in store.cancelled_runs_of(worker).await.unwrap_or_default() {
                engine.live().cancel(agentable, run);
            }
        }
    }
}

/// Reaps workers whose lease expired, and those suspected for long enough without a renewal: a living worker whose connection
/// broke has reconnected and renewed before. Returns whether there were any.
async fn reap(store: &RunStore, times: Times, suspects: &mut Suspects) -> houston_store::Result<bool> {
    let (found, now) = (store.suspected_workers(times.settled).await?, Instant::now());
    let since = |suspect: &SuspectedWorker| match suspects.get(&suspect.worker) {
        Some((beat, since)) if *beat == suspect.beat => *since,
        _ => now,
    };
    let next = found.iter().map(|suspect| (suspect.worker, (suspect.beat, since(suspect)))).collect();
    *suspects = next;
    // The time in which a worker is excused counts.
    let is_dead = |suspect: &&SuspectedWorker| {
        !suspect.is_excused
            && suspects.get(&suspect.worker).is_some_and(|(_, since)| now - *since >= times.suspected)
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
