//! Makes deliveries of new events, and of those that are to be replayed; forgets old deliveries.

use std::time::Duration;

use chrono::TimeDelta;
use houston_store::Result;
use houston_store::fan_out::FannedOut;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// Pages that are read in a row, before something else gets its turn.
const PAGES: usize = 100;
/// The longest rest after a page.
const MAX_REST: Duration = Duration::from_millis(500);
/// Reads between two looks for old deliveries.
const FORGET_EVERY: u32 = 600;
/// Old deliveries that one statement deletes.
const FORGET: i64 = 5_000;

/// Reads until stopped.
pub(super) async fn run(shared: Shared, stop: CancellationToken) {
    let mut reads = 0_u32;
    loop {
        let read = tokio::select! {
            () = stop.cancelled() => return,
            read = read(&shared, reads.is_multiple_of(FORGET_EVERY)) => read,
        };
        reads = reads.wrapping_add(1);
        let pause = read.unwrap_or_else(|error| {
            tracing::warn!(%error, "new events could not be read for webhooks; the next read gets them");
            shared.webhooks.config.poll()
        });
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.read_now.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Reads what is new. Returns how long to wait for more.
async fn read(shared: &Shared, forgets: bool) -> Result<Duration> {
    let Shared { store, ids, webhooks, .. } = shared;
    let config = &webhooks.config;
    if forgets {
        let before = ids.clock().now() - TimeDelta::days(i64::from(config.keep_days));
        store.forget_deliveries(before, FORGET).await?;
    }
    if !store.has_webhooks().await? && !store.has_replays().await? {
        return Ok(config.idle());
    }
    for _ in 0..PAGES {
        let began = Instant::now();
        match store.fan_out(ids, config.page, ids.clock().now()).await? {
            FannedOut::Idle => break,
            FannedOut::Restarted => {
                tracing::error!(
                    "the position of webhooks was of another database, as after a restore from a dump: events before now are \
                     not sent; POST /v1/webhooks/{{id}}/replay asks for them"
                );
                break;
            }
            FannedOut::Read { deliveries, has_more, .. } => {
                if deliveries > 0 {
                    shared.send_now.notify_one();
                }
                rest(began).await;
                if !has_more {
                    break;
                }
            }
        }
    }
    for _ in 0..PAGES {
        let began = Instant::now();
        if !store.replay_some(ids, config.page, ids.clock().now()).await? {
            break;
        }
        shared.send_now.notify_one();
        rest(began).await;
    }
    Ok(config.poll())
}

/// Rests as long as a page has taken. Each event becomes a row for each webhook of its tenant: without a rest, those of a tenant
/// with many would take all that the disk of Postgres can write, and everyone else's commits wait for it.
async fn rest(began: Instant) {
    tokio::time::sleep(began.elapsed().min(MAX_REST)).await;
}
