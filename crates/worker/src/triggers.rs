//! Triggers: every worker looks for times that are due and for events that triggers have heard; one at a time reads new events.
//! What fires one moves its time, or deletes what was heard, in the same transaction, so each fires once, however many workers
//! look and whatever dies. While there is no trigger, each process asks Postgres every `idle_s` whether there is one, and does
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::event::Live;
use houston_domain::id::{AgentableId, Ids};
use houston_queue::DeltaBus;
use houston_store::trigger_firing::{Fired, FiringIds, FiringLimits};
use houston_store::trigger_reader::{Listened, Reading};
use houston_store::{Result, RunStore};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// One tenant has this part, a quarter, of what is fired at one look.
const SHARE: i64 = 4;
/// Pages that are read in a row, before something else gets its turn.
const PAGES: usize = 20;
/// How long other processes leave a page to the one that evaluates it, which says five times in between that it goes on.
const TURN: TimeDelta = TimeDelta::seconds(10);

/// `jobs/triggers.toml`. Reasons for the values are in that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggersConfig {
    /// Milliseconds between two looks.
    pub poll_ms: u64,
    /// Seconds between two looks for triggers while there are none.
    pub idle_s: u64,
    /// Events of one read, and triggers that one look fires.
    pub page: i64,
    /// How often one trigger fires in an hour.
    pub per_hour: i32,
    /// Seconds after which a time counts as missed.
    pub grace_s: u32,
}

impl TriggersConfig {
    /// What breaks a rule: its key and what is allowed.
    #[must_use]
    pub fn violation(&self) -> Option<(&'static str, String)> {
        let least = [
            ("triggers.page", self.page),
            ("triggers.per_hour", i64::from(self.per_hour)),
            ("triggers.grace_s", i64::from(self.grace_s)),
        ];
        let zero = least.into_iter().find(|(_, value)| *value < 1);
        zero.map(|(key, _)| (key, "must be at least 1".to_owned()))
    }

    fn limits(&self) -> FiringLimits {
        FiringLimits { per_hour: self.per_hour, grace: TimeDelta::seconds(i64::from(self.grace_s)) }
    }

    fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms.max(10))
    }
}

/// Looks for triggers that fire.
pub(crate) struct Triggers {
    pub(crate) store: RunStore,
    pub(crate) bus: DeltaBus,
    pub(crate) ids: Arc<Ids>,
    pub(crate) config: TriggersConfig,
    /// A trigger was switched on: look now.
    pub(crate) look_now: Arc<Notify>,
    pub(crate) stop: CancellationToken,
}

impl Triggers {
    /// Looks until stopped.
    pub(crate) async fn run(self) {
        loop {
            let looked = tokio::select! {
                () = self.stop.cancelled() => {
                    // What was being evaluated has not ended this process.
                    let _ = self.store.unmark_triggers().await;
                    return;
                }
                looked = self.look() => looked,
            };
            let pause = looked.unwrap_or_else(|error| {
                tracing::warn!(%error, "could not look for triggers; the next look finds them");
                self.config.poll()
            });
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.look_now.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Fires what is due. Returns how long to wait before the next look.
    async fn look(&self) -> Result<Duration> {
        if !self.store.has_triggers().await? {
            return Ok(Duration::from_secs(self.config.idle_s.max(1)));
        }
        self.store.unmark_triggers().await?;
        for suspect in self.store.settle_evaluations(self.now()).await? {
            let (trigger, is_off) = (suspect.id, suspect.is_off);
            tracing::error!(%trigger, is_off, "a process ended while it evaluated this trigger");
        }
        for due in self.store.due_triggers(self.now(), self.config.page).await? {
            let ids = self.firing_ids(due.agentable);
            let fired = self.store.fire_at_time(due, self.config.limits(), ids).await;
            self.announce(fired);
        }
        let reading = Reading { limit: self.config.page, turn: TURN };
        for _ in 0..PAGES {
            match self.store.listen_for_triggers(reading, self.now()).await? {
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
        for heard in self.store.heard(self.config.page, (self.config.page / SHARE).max(1)).await? {
            let ids = self.firing_ids(heard.agentable);
            let fired = self.store.fire_at_event(heard, self.config.limits(), ids).await;
            self.announce(fired);
        }
        Ok(self.config.poll())
    }

    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.ids.clock().now()
    }

    fn firing_ids(&self, agentable: AgentableId) -> FiringIds {
        let ids = &self.ids;
        let (message, run) = (ids.beside(agentable), ids.beside(agentable));
        FiringIds { message, run, task: ids.beside(agentable), now: self.now() }
    }

    /// Wakes open streams of the agentable. Workers learn of the run by `NOTIFY`. One that fails does not hold the others back.
    fn announce(&self, fired: Result<Fired>) {
        match fired {
            Ok(Fired::Posted(agentable)) => self.bus.publish(agentable, Live::Nudge),
            // No stream is open of a task that has just begun.
            Ok(Fired::Started(_) | Fired::Refused | Fired::Gone) => {}
            Err(error) => tracing::warn!(%error, "a trigger could not fire; the next look finds it again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_settings_are_allowed() {
        let shipped: TriggersConfig = toml::from_str(include_str!("../../../jobs/triggers.toml")).unwrap();
        assert_eq!(shipped.violation(), None);
        let none = TriggersConfig { per_hour: 0, ..shipped };
        assert_eq!(none.violation().unwrap().0, "triggers.per_hour");
    }
}
