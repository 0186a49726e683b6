//! The sweep: searches Postgres for agentables whose hint was lost, and sends another one.

use std::sync::PoisonError;
use std::time::Duration;

use houston_faults::mutation::{self, Mutation};
use houston_queue::Hint;
use houston_store::sweep::Due;

use super::runner::{Again, Result};
use super::{AFTER_FULL_BATCH, Jobs, millis};

pub(super) fn period(jobs: &Jobs) -> Option<Duration> {
    let config = &jobs.worker.sweep;
    let every = if jobs.redis.is_up() { config.every_ms } else { config.without_redis_ms };
    (!mutation::is(Mutation::Sweep)).then(|| millis(every))
}

/// Wakes runs whose time has come, and sends hints for one page of agentables; the first page begins with those of dead workers.
/// A full page is followed by another one soon; the pause lets workers take the hints.
pub(super) async fn run(jobs: &Jobs, continues: bool) -> Result {
    let (store, limit) = (&jobs.worker.store, jobs.worker.sweep.limit);
    let swept = || jobs.swept.lock().unwrap_or_else(PoisonError::into_inner);
    // If a worker has died, start again, with its agentables first.
    let after = swept().take().filter(|_| continues);
    let send = |due: &Due| {
        let (lane, hint) = (jobs.monitor.kinds.lane(&due.kind), Hint::run(due.agentable));
        if jobs.redis.is_up() {
            jobs.worker.hints.send(lane, hint);
        } else {
            // May fail when the queue is full or closed: the next sweep finds the agentable again.
            jobs.local.try_send(lane, hint);
        }
    };
    let mut found = 0;
    if after.is_none() {
        // First, because people may be reading what these runs write.
        let orphans = store.orphans(limit).await?;
        orphans.iter().for_each(send);
        found = i64::try_from(orphans.len()).unwrap_or(limit);
        store.wake_waiting(limit).await?;
        store.expire_questions(limit).await?;
    }
    let page = store.due(after, (limit - found).max(1)).await?;
    page.due.iter().for_each(send);
    *swept() = page.next;
    Ok(page.next.map_or(Again::Later, |_| Again::In(AFTER_FULL_BATCH)))
}
