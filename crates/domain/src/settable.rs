//! What people and agents may set of an agentable's status: one rule for requests and for tools.
//!
//! A status that only a run gives (`working`, `failed`) cannot be set. The first status of a kind is that of an agentable
//! about which nothing was decided: setting it withdraws a decision, and the status follows from its run again.

use crate::agentable::AgentType;

/// The status that ends what an agentable does.
const ARCHIVED: &str = "archived";
/// Statuses that only a run gives.
const OF_RUNS: [&str; 6] = ["waiting", "working", "active", "stopped", "failed", "cancelled"];

/// What setting a status means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusChange {
    /// The agentable is archived: its run and its tasks are cancelled, its check-ins deleted.
    Archive,
    /// The status is stored; `None`: it follows from the run again. An archived agentable leaves the archive.
    Store(Option<String>),
}

impl AgentType {
    /// The statuses that may be set, in the order of the kind's file; none if agents create the kind, because then only its
    /// runs decide.
    pub fn settable_statuses(&self) -> Vec<&str> {
        let statuses = self.statuses.iter().filter(|_| self.conversational).map(String::as_str);
        statuses
            .enumerate()
            .filter(|(nth, name)| *nth == 0 || !OF_RUNS.contains(name))
            .map(|(_, name)| name)
            .collect()
    }

    /// What it means to set the status `wanted`.
    pub fn set_status(&self, wanted: &str) -> Result<StatusChange, String> {
        let settable = self.settable_statuses();
        match settable.iter().position(|name| *name == wanted) {
            Some(0) => Ok(StatusChange::Store(None)),
            Some(_) if wanted == ARCHIVED => Ok(StatusChange::Archive),
            Some(_) => Ok(StatusChange::Store(Some(wanted.to_owned()))),
            None if settable.is_empty() => {
                Err(format!("cannot be set: a {} has none that may be", self.kind))
            }
            None => Err(format!("cannot be set to `{wanted:.60}`; allowed are: {}", settable.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(text: &str) -> AgentType {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn goal_can_be_archived_and_taken_out_again() {
        let goal = kind(include_str!("../../../jobs/agents/goal.toml"));
        assert_eq!(goal.set_status("archived"), Ok(StatusChange::Archive));
        assert_eq!(goal.set_status("waiting"), Ok(StatusChange::Store(None)));
        for wrong in ["working", "gone", ""] {
            let refused = goal.set_status(wrong).unwrap_err();
            assert_eq!(refused, format!("cannot be set to `{wrong}`; allowed are: waiting, archived"));
        }
        for other in [
            include_str!("../../../jobs/agents/task.toml"),
            include_str!("../../../jobs/agents/user_agent.toml"),
        ] {
            assert!(kind(other).set_status("completed").unwrap_err().contains("has none that may be"));
        }
    }

    proptest! {
        /// What was set is what an agentable has while no run is open.
        #[test]
        fn status_that_was_set_stays(
            statuses in proptest::sample::subsequence(
                vec!["waiting", "active", "working", "paused", "completed", "failed", "on_hold", "archived"], 1..8,
            ).prop_shuffle(),
        ) {
            let goal = kind(include_str!("../../../jobs/agents/goal.toml"));
            let of = AgentType { statuses: statuses.iter().map(|status| (*status).to_owned()).collect(), ..goal };
            for name in of.settable_statuses() {
                let stored = match of.set_status(name).unwrap() {
                    StatusChange::Archive => Some(ARCHIVED.to_owned()),
                    StatusChange::Store(stored) => stored,
                };
                prop_assert_eq!(of.status(stored.as_deref(), None), Some(name.to_owned()));
            }
            prop_assert!(!of.settable_statuses().iter().skip(1).any(|name| OF_RUNS.contains(name)));
        }
    }
}
