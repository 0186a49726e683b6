//! Makes deliveries of new events, and of those that are to be replayed; [`crate::webhooks`] sends them.

use std::time::Duration;

use houston_store::fan_out::FannedOut;
use tokio::time::Instant;

use super::Jobs;
use super::runner::{Again, Result};
use crate::worker::Worker;

/// The longest rest after a page.
const MAX_REST: Duration = Duration::from_millis(500);

/// Reads what is new, a page. Nothing is begun while the worker drains.
pub(super) async fn run(jobs: &Jobs) -> Result {
    jobs.draining.run_until_cancelled(read(jobs)).await.unwrap_or(Ok(Again::Later))
}

async fn read(jobs: &Jobs) -> Result {
    let (Worker { background: store, ids, webhooks, .. }, began) = (&*jobs.worker, Instant::now());
    let config = &webhooks.config;
    if !store.has_webhooks().await? && !store.has_replays().await? {
        return Ok(Again::In(config.idle()));
    }
    let (has_some, has_more) = match store.fan_out(ids, config.page, ids.clock().now()).await? {
        FannedOut::Read { deliveries, has_more, .. } => (deliveries > 0, has_more),
        FannedOut::Idle => (false, false),
        FannedOut::Restarted => {
            tracing::error!(
                "the position of webhooks was of another database, as after a restore from a dump: events before now are \
                 not sent; POST /v1/webhooks/{{id}}/replay asks for them"
            );
            (false, false)
        }
    };
    if has_some {
        jobs.wakes.deliveries.notify_one();
    }
    let replays = store.replay_some(ids, config.page, ids.clock().now()).await?;
    if replays {
        jobs.wakes.deliveries.notify_one();
    }
    // Rests as long as the page has taken. Each event becomes a row for each webhook of its tenant: without a rest, those of a
    // tenant with many would take all that the disk of Postgres can write, and everyone else's commits wait for it.
    let rest = began.elapsed().min(MAX_REST);
    Ok(if has_more || replays { Again::In(rest) } else { Again::Later })
}
