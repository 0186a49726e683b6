//! Deletes what was asked to be erased, batch by batch. Every worker looks; one that dies loses a batch, which the next
//! one does again.

use std::time::Duration;

use houston_store::Store;
use houston_store::erasure::sweep::Swept;
use rand::Rng;
use tokio_util::sync::CancellationToken;

use crate::config::SweepConfig;

/// The pause after a batch: whoever else uses Postgres comes in between.
const BETWEEN_BATCHES: Duration = Duration::from_millis(10);

/// Looks again and again until stopped.
pub(crate) async fn run(store: Store, config: SweepConfig, stop: CancellationToken) {
    loop {
        // Up to a fifth shorter than set, so that the workers do not look in step.
        let early = rand::rng().random_range(0..=config.erase_every_ms / 5);
        let mut pause = Duration::from_millis(config.erase_every_ms.saturating_sub(early));
        match store.erase_some(config.erase_rows).await {
            Ok(Swept::Nothing) => {}
            Ok(Swept::More) => pause = BETWEEN_BATCHES,
            Ok(Swept::Done(erasure)) => {
                tracing::info!(%erasure, "everything that was asked to be erased is deleted");
                pause = BETWEEN_BATCHES;
            }
            Err(error) => tracing::debug!(%error, "could not erase, trying again"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
