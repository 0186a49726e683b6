//! Titles for agentables created without one, written after the run that requested one. A job looks for those whose worker died.
//! Only a few at a time, because no user waits for them.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::worker::Worker;

/// Writes titles that are requested in this process, until stopped.
pub(crate) async fn write_requested(worker: Arc<Worker>, stop: CancellationToken) {
    let titles = &worker.engine.titles;
    let at_once = usize::try_from(titles.config.batch).unwrap_or(1).max(1);
    while let Some(requested) = stop.run_until_cancelled(titles.requested()).await {
        let write = async |agentable| {
            if let Err(error) = titles.write(Some(agentable), &stop).await {
                tracing::warn!(%error, "could not set a title; a later search does");
            }
        };
        futures_util::stream::iter(requested).for_each_concurrent(at_once, write).await;
    }
}
