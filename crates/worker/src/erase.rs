//! Deletes data that was requested to be erased, batch by batch. Every worker does it; the batch of a worker that dies is
//! repeated by another. Where workspaces are folders, it also does what was left to be done there.

use std::time::Duration;

use houston_store::RunStore;
use houston_store::attachment::Dropped;
use houston_store::erasure::sweep::Swept;
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;

use crate::config::SweepConfig;

/// Pause after a batch, so that other work of Postgres comes between.
const BETWEEN_BATCHES: Duration = Duration::from_millis(10);

/// How many objects of the object store are deleted at once, one after the other.
const OBJECTS: i64 = 100;

/// How often the folder of workspaces is tidied. What is left there is nothing that anybody waits for: files that a crash has
/// kept from being written are read from their rows.
const TIDY_EVERY: Duration = Duration::from_secs(300);

/// Searches for erasures until stopped.
pub(crate) async fn run(store: RunStore, config: SweepConfig, stop: CancellationToken) {
    let mut tidied: Option<tokio::time::Instant> = None;
    loop {
        if tidied.is_none_or(|at| at.elapsed() >= TIDY_EVERY) {
            tidied = Some(tokio::time::Instant::now());
            match store.tidy_folders().await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed folders of deleted agentables"),
                Err(error) => tracing::warn!(%error, "could not tidy the folder of workspaces; trying again"),
            }
        }
        match store.drop_objects(OBJECTS).await {
            Ok(Dropped { deleted: 0, .. }) => {}
            Ok(Dropped { deleted, .. }) => tracing::info!(deleted, "deleted objects of the object store"),
            Err(error) => tracing::debug!(%error, "could not look for objects to delete; trying again"),
        }
        // Up to a fifth shorter than configured, so that workers do not search at the same time.
        let early = rand::rng().random_range(0..=config.erase_every_ms / 5);
        let mut pause = Duration::from_millis(config.erase_every_ms.saturating_sub(early));
        match store.erase_some(config.erase_rows).await {
            Ok(Swept::Nothing | Swept::Waits) => {}
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
