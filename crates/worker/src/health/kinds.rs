//! What the monitor needs of the agent types.

use std::collections::BTreeMap;

use houston_domain::agentable::{AgentType, Urgency};
use houston_engine::Engine;
use houston_queue::Lane;

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
