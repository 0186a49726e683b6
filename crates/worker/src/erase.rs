//! Deletes data that was requested to be erased, batch by batch. Every worker does it; the batch of a worker that dies is
//! repeated by another.

use std::time::Duration;

use houston_store::RunStore;
use houston_store::erasure::sweep::Swept;
use rand::Rng;
use tokio_util::sync::CancellationToken;

use crate::config::SweepConfig;

/// Pause after a batch, so that other work of Postgres comes between.
const BETWEEN_BATCHES: Duration = Duration::from_millis(10);

/// Searches for erasures until stopped.
pub(crate) async fn run(store: RunStore, config: SweepConfig, stop: CancellationToken) {
    loop {
        // Up to a fifth shorter than configured, so that workers do not search at the same time.
        let early = rand::rng().random_range(0..=config.erase_every_ms / 5);
        let mut pause = Duration::from_millis(config.erase_every_ms.saturating_sub(early));
        match store.erase_some(config.erase_rows).await {
            Ok(Swept::Nothing) => {}
            Ok(Swept::More) => pause = BETWEEN_BATCHES,
            Ok(Swept::Done(erasure)) => {
                tracing::info!(%erasure, "erasure completed");
                pause = BETWEEN_BATCHES;
            }
            Err(error) => tracing::debug!(%error, "could not erase; trying again"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
