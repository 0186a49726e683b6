//! What the monitor needs of the agent types.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::agentable::{AgentType, Urgency};
use houston_engine::Engine;
use houston_queue::Lane;
use houston_store::paused_lane::LaneServices;

/// Urgency and time limits of the agent types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kinds {
    urgencies: BTreeMap<String, Urgency>,
    /// Kinds that are not conversational.
    tasks: Vec<String>,
    /// The longest time limit of an attempt, in seconds.
    longest_s: u64,
}

impl Kinds {
    /// From agent types and the seconds an attempt may take (limit and the watchdog's grace).
    pub fn of<'t>(types: impl IntoIterator<Item = (&'t AgentType, u64)>) -> Self {
        let mut kinds = Self::default();
        for (agent_type, most_s) in types {
            kinds.urgencies.insert(agent_type.kind.clone(), agent_type.urgency);
            kinds.longest_s = kinds.longest_s.max(most_s);
            if !agent_type.conversational {
                kinds.tasks.push(agent_type.kind.clone());
            }
        }
        kinds
    }

    /// From the agent types of an engine.
    pub(crate) fn of_engine(engine: &Engine) -> Self {
        let setups: Vec<_> =
            engine.urgencies().keys().filter_map(|kind| engine.setup(kind).cloned()).collect();
        let grace_s = engine.watchdog().grace_s;
        Self::of(setups.iter().map(|setup| (&setup.agent_type, setup.policy.limits.max_duration_s + grace_s)))
    }

    /// All kinds, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.urgencies.keys()
    }

    pub(super) fn tasks(&self) -> &[String] {
        &self.tasks
    }

    /// The kinds that do not chat, or those that do, of lanes that were served for the last `time`.
    pub(super) fn served(&self, are_tasks: bool, lanes: &LaneServices, time: Duration) -> Vec<String> {
        let time = TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
        let is_wanted = |kind: &&String| {
            self.tasks.contains(kind) == are_tasks && lanes.of(self.lane(kind).as_str()).was_served_for(time)
        };
        self.names().filter(is_wanted).cloned().collect()
    }

    /// The kinds that chat and those that no file declares, of lanes that were served for the last `time`: these kinds, or if
    /// the answer is `true` all but these.
    pub(super) fn served_or_unknown(&self, lanes: &LaneServices, time: Duration) -> (Vec<String>, bool) {
        let served = self.served(false, lanes, time);
        // Unknown kinds are in this lane.
        let others = lanes.of(Lane::Interactive.as_str());
        if TimeDelta::from_std(time).is_ok_and(|time| others.was_served_for(time)) {
            (self.names().filter(|kind| !served.contains(kind)).cloned().collect(), true)
        } else {
            (served, false)
        }
    }

    pub(super) fn longest_s(&self) -> u64 {
        self.longest_s
    }

    /// The lane for hints of an agentable of this kind.
    pub(crate) fn lane(&self, kind: &str) -> Lane {
        match self.urgencies.get(kind) {
            Some(Urgency::Background) => Lane::Background,
            _ => Lane::Interactive,
        }
    }
}
