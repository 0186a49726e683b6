//! Liveness: what is posted is settled in the end.
//!
//! Stateright's `eventually` does not see a run that goes in a circle, and may forget a counterexample where two
//! paths meet. So liveness is checked as two properties of states instead.
//!
//! 1. *Whatever stops, stops settled*: where nothing is left to happen but faults and new messages, nothing is
//!    pending and nobody holds the lock. This finds every message that is forgotten.
//! 2. *From every state everything settles once faults stop*: one fair schedule is followed from there to its
//!    end (workers before claims, claims before the sweep). It proves that no state is a trap, however it was
//!    come by; a schedule that goes in a circle counts as a trap. That a fair schedule is what happens is
//!    assumed: leases are renewed, workers take hints, the sweep comes by.
//!
//! The schedule depends on the state alone: what settled from a state once settles always, so each state is
//! followed once.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::action::Action;
use crate::database::{Holder, Outcome};
use crate::protocol::Protocol;
use crate::worker::Duty;
use crate::world::World;

impl Protocol {
    /// Whether nothing happens any more by itself.
    pub(crate) fn rests(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        self.progress(world, &mut actions);
        actions.is_empty()
    }

    /// Whether nothing is pending, nobody works, and no lock is held.
    pub(crate) fn is_settled(&self, world: &World) -> bool {
        let lock = &world.database.lock;
        !lock.open
            && !lock.wake
            && lock.holder == Holder::Nobody
            && world.database.messages.iter().all(|message| *message != Outcome::Pending)
            && world.workers.iter().all(|worker| worker.duty == Duty::Idle)
    }

    /// Whether the fair schedule from here ends settled.
    pub(crate) fn settles(&self, world: &World) -> bool {
        let mut known = self.settling.lock().unwrap();
        let mut path = HashSet::new();
        let mut world = world.clone();
        loop {
            let place = place(&world);
            if known.contains(&place) {
                break;
            }
            if !path.insert(place) {
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
        known.extend(path);
        true
    }
}

fn place(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}
