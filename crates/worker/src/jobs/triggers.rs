//! Triggers: every worker looks for times that are due and for events that triggers have heard; one at a time reads new events.
//! What fires one moves its time, or deletes what was heard, in the same transaction, so each fires once, however many workers
//! look and whatever dies. While there is no trigger, each process asks Postgres every `idle_s` whether there is one, and does
//! nothing else.

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::event::Live;
use houston_domain::id::AgentableId;
use houston_store::trigger_firing::{Fired, FiringIds};
use houston_store::trigger_reader::{Listened, Reading, Suspect};

use super::Jobs;
use super::runner::{Again, Result};
use crate::worker::Worker;

/// One tenant has this part, a quarter, of what is fired at one look.
const SHARE: i64 = 4;
/// Pages that are read in a row, before something else gets its turn.
const PAGES: usize = 20;
/// How long other processes leave a page to the one that evaluates it, which says five times in between that it goes on.
const TURN: TimeDelta = TimeDelta::seconds(10);

/// Looks once. What is being evaluated when the worker stops has not ended this process.
pub(super) async fn run(jobs: &Jobs) -> Result {
    let looked = jobs.stop.run_until_cancelled(look(&jobs.worker)).await;
    if looked.is_none() {
        let _ = jobs.worker.background.unmark_triggers().await;
    }
    looked.unwrap_or(Ok(Again::Later))
}

/// Fires what is due.
async fn look(worker: &Worker) -> Result {
    let Worker { background: store, triggers: config, .. } = worker;
    let now = || worker.ids.clock().now();
    if !store.has_triggers().await? {
        return Ok(Again::In(config.idle()));
    }
    store.unmark_triggers().await?;
    for Suspect { id: trigger, is_off } in store.settle_evaluations(now()).await? {
        tracing::error!(%trigger, is_off, "a process ended while it evaluated this trigger");
    }
    for due in store.due_triggers(now(), config.page).await? {
        let ids = firing_ids(worker, due.agentable, now());
        announce(worker, store.fire_at_time(due, config.limits(), ids).await);
    }
    let reading = Reading { limit: config.page, turn: TURN };
    for _ in 0..PAGES {
        match store.listen_for_triggers(reading, now()).await? {
            Listened::Idle | Listened::Read { has_more: false, .. } => break,
            Listened::Read { .. } => {}
            Listened::Restarted => {
                tracing::error!(
                    "the position of triggers was of another database, as after a restore from a dump: they do not hear events before now"
                );
                break;
            }
        }
    }
    for heard in store.heard(config.page, (config.page / SHARE).max(1)).await? {
        let ids = firing_ids(worker, heard.agentable, now());
        announce(worker, store.fire_at_event(heard, config.limits(), ids).await);
    }
    Ok(Again::Later)
}

fn firing_ids(worker: &Worker, agentable: AgentableId, now: DateTime<Utc>) -> FiringIds {
    let ids = &worker.ids;
    let (message, run) = (ids.beside(agentable), ids.beside(agentable));
    FiringIds { message, run, task: ids.beside(agentable), now }
}

/// Wakes open streams of the agentable. Workers learn of the run by `NOTIFY`. One that fails does not hold the others back.
fn announce(worker: &Worker, fired: Result<Fired>) {
    match fired {
        Ok(Fired::Posted(agentable)) => worker.bus.publish(agentable, Live::Nudge),
        // No stream is open of a task that has just begun.
        Ok(Fired::Started(_) | Fired::Refused | Fired::Gone) => {}
        Err(error) => tracing::warn!(%error, "a trigger could not fire; the next look finds it again"),
    }
}
