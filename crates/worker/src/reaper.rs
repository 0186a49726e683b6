//! Finding dead workers early, and runs somebody asked to cancel while neither Redis nor `NOTIFY` could say so.

use std::sync::Arc;
use std::time::Duration;

use houston_engine::Engine;
use houston_store::Store;
use houston_store::lease::Suspect;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::lease::Current;

/// Reaps `every` so often until stopped; rings `sweep` when somebody was found dead. `settled` so long after a
/// restart of Postgres, the living have their advisory locks back.
pub(crate) async fn run(
    store: Store,
    engine: Arc<Engine>,
    current: Current,
    (every, settled): (Duration, Duration),
    sweep: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut suspects: Vec<Suspect> = Vec::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        match reap(&store, settled, &mut suspects).await {
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

/// Reaps those whose lease has run out, and those that looked dead the last time, too, and have not renewed
/// since: a worker whose connection broke takes its advisory lock again within a renewal.
async fn reap(store: &Store, settled: Duration, suspects: &mut Vec<Suspect>) -> houston_store::Result<bool> {
    let now = store.suspects(settled).await?;
    let confirmed: Vec<Suspect> = now.iter().filter(|suspect| suspects.contains(suspect)).copied().collect();
    *suspects = now;
    if !confirmed.is_empty() {
        houston_store::fault!("C16")?;
    }
    let reaped = store.reap(&confirmed).await?;
    for worker in &reaped {
        tracing::warn!(%worker, "worker is dead, its runs go to others");
    }
    Ok(!reaped.is_empty())
}
