//! Finding out which run kills its workers.
//!
//! All runs of a process die with it, so one death says only that one of them may be the cause. A run that commits a
//! step is no longer suspected: its deaths are forgotten. So the other runs of a process that died explain less and
//! less of its death, and what is left is explained by the run that died with it each time.
//!
//! The best witness is a process that drives nothing else: a run that enough workers died with is tried by one, a child of a
//! worker's process. It is given up if that process dies and its parent lives; [`verdict`] says what becomes of it. So a poisoned
//! run kills `limit` workers and one child, and one more for each parent that dies at the same time, and an innocent one is never
//! given up, whatever kills its workers.
//!
//! A program that Houston runs inside cannot be started again for one run. There the deaths decide, in [`judge`]: a run is given
//! up only if enough processes died with it and every other run that died with them has committed a step since. Until that is
//! known, it waits for a while; then it is tried once more, because its user waits. After twice as many deaths it is not tried
//! before the others have shown what they are. If several runs wait for each other, they are tried one after the other, those
//! with the fewest deaths first: an innocent run clears itself at its first try.
//!
//! So there a poisoned run kills at most twice `limit` workers, and two more for each other poisoned run that dies with it, or
//! run that is cancelled before it has shown what it is.

use crate::id::{AgentableId, ProcessId};

/// A run that workers died with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    /// The agentable of the run.
    pub agentable: AgentableId,
    /// The processes that died with it since its last committed step; one that was not noticed by a claim yet included.
    /// If driving the run fails without a death, it has an id that no other run has.
    pub deaths: Vec<ProcessId>,
    /// Whether the run has not ended.
    pub is_open: bool,
    /// Whether a living worker drives it.
    pub is_driven: bool,
}

impl Suspect {
    fn died_with(&self, other: &Self) -> bool {
        self.deaths.iter().any(|death| other.deaths.contains(death))
    }
}

/// What becomes of a run that enough workers died with to give it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is given up: nothing else explains the deaths.
    GiveUp,
    /// It waits: another run may be the cause of a death, and will show.
    Wait,
    /// It is tried once more.
    Try,
}

/// What a process that drove a run alone has shown about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// It was driven until it rested, and the process lived.
    Lives,
    /// The process died, or driving the run failed in it.
    Kills,
    /// Nothing: the process could not be started, or was ended from outside.
    Nothing,
}

/// What becomes of a run after a process has driven it alone; `None`: nothing, it goes on.
pub fn verdict(shown: Shown) -> Option<Verdict> {
    match shown {
        Shown::Lives => None,
        Shown::Kills => Some(Verdict::GiveUp),
        Shown::Nothing => Some(Verdict::Wait),
    }
}

/// Decides about `suspect`, which at least `limit` workers died with. `others` are the other runs that died with the
/// same processes; those that died with none of them change nothing. `has_waited`: whether it has waited for them as long as
/// its user should wait.
pub fn judge(suspect: &Suspect, others: &[Suspect], limit: usize, has_waited: bool) -> Verdict {
    let mut own: Vec<ProcessId> = suspect
        .deaths
        .iter()
        .copied()
        .filter(|death| !others.iter().any(|other| other.deaths.contains(death)))
        .collect();
    own.sort_unstable();
    own.dedup();
    if own.len() >= limit {
        return Verdict::GiveUp;
    }
    // A run that ended without a step explains a death, but shows nothing any more.
    let mut companions = others.iter().filter(|other| other.is_open && other.died_with(suspect));
    let rank = |one: &Suspect| (one.deaths.len(), one.agentable);
    // Other runs with so many deaths wait as well, in this order.
    // What may be tried without knowing more is limited, so that the number of workers a poisoned run kills is.
    if has_waited && suspect.deaths.len() < 2 * limit {
        return Verdict::Try;
    }
    if companions.any(|other| other.is_driven || other.deaths.len() < limit || rank(other) < rank(suspect)) {
        Verdict::Wait
    } else {
        Verdict::Try
    }
}

#[cfg(test)]
mod tests;
