//! Liveness: every posted message is settled eventually.
//!
//! Stateright's `eventually` does not find cycles, and may lose a counterexample where two paths meet. So liveness is
//! checked with two properties of states instead.
//!
//! 1. *A state at rest is settled*: if only faults and new messages are possible, nothing is pending and the lock is free.
//!    This finds every forgotten message.
//! 2. *From every state everything settles once faults stop*: one fair schedule is followed to its end (workers before
//!    claims, claims before the sweep). This proves that no reachable state is a trap; a schedule with a cycle counts as a
//!    trap. It assumes that a fair schedule happens: leases are renewed, workers take hints, the sweep runs.
//!
//! The schedule depends only on the state, so each state is followed once.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::action::Action;
use crate::database::{Awaited, Holder, Outcome};
use crate::protocol::Protocol;
use crate::worker::WorkerState;
use crate::world::World;

impl Protocol {
    /// Whether no action is possible without clients and faults.
    pub(crate) fn is_at_rest(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        self.progress(world, &mut actions);
        actions.is_empty()
    }

    /// Whether nothing is pending, all workers are idle, and the lock is free.
    pub(crate) fn is_settled(&self, world: &World) -> bool {
        let lock = &world.database.lock;
        !lock.open
            && !lock.wake
            && lock.holder == Holder::None
            && world.database.messages.iter().all(|message| *message != Outcome::Pending)
            && world.database.runs.iter().all(|run| run.awaited != Awaited::Answer)
            && world.workers.iter().all(|worker| worker.state == WorkerState::Idle)
    }

    /// Whether the fair schedule from `world` ends in a settled state.
    pub(crate) fn settles(&self, world: &World) -> bool {
        let mut settling = self.settling.lock().unwrap();
        let mut path = HashSet::new();
        let mut world = world.clone();
        loop {
            let fingerprint = fingerprint(&world);
            if settling.contains(&fingerprint) {
                break;
            }
            if !path.insert(fingerprint) {
                return false;
            }
            let mut actions: Vec<Action> = Vec::new();
            self.progress(&world, &mut actions);
            let Some(next) = actions.first().and_then(|action| self.next_state(&world, *action)) else {
                if self.is_settled(&world) {
                    break;
                }
                return false;
            };
            world = next;
        }
        settling.extend(path);
        true
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}
