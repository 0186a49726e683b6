//! The protocol as a model: what each action does. Who may do what, and when, stands in `action.rs`.

use std::collections::HashSet;
use std::sync::Mutex;

use stateright::{Model, Property};

use crate::action::Action;
use crate::database::{Holder, Lease};
use crate::property;
use crate::rules::{Fence, Intent};
use crate::scenario::Scenario;
use crate::step::{Done, Ending, Step};
use crate::witness::{Witness, Witnesses};
use crate::worker::{Calls, Drive, Duty};
use crate::world::World;

/// A scenario under check.
pub(crate) struct Protocol {
    pub(crate) scenario: Scenario,
    pub(crate) seen: Witnesses,
    /// States from which everything is known to settle, see [`crate::rest`].
    pub(crate) settling: Mutex<HashSet<u64>>,
}

impl Protocol {
    pub(crate) fn new(scenario: Scenario) -> Self {
        Self { scenario, seen: Witnesses::default(), settling: Mutex::default() }
    }

    fn claim(&self, world: &mut World, worker: usize, answered: bool) {
        world.hints -= 1;
        let leases = world.leases();
        let waited = world.database.lock.failed_attempts > 0;
        let claimer = u8::try_from(worker).unwrap();
        let Some(claimed) = world.database.claim(&self.scenario.rules, claimer, &leases) else {
            self.seen.see(Witness::LateHint);
            return;
        };
        if claimed.takeover {
            self.seen.see(Witness::Takeover);
        }
        if claimed.cancelled && !claimed.again {
            self.seen.see(Witness::CancelledQueued);
        }
        if waited && claimed.again && !claimed.takeover {
            self.seen.see(Witness::Retried);
        }
        world.workers[worker].duty = if answered {
            Duty::Loading(Drive::begin(claimed, &self.scenario))
        } else {
            Duty::Abandoning { epoch: claimed.epoch, broke_down: false }
        };
    }

    /// A commit, through whatever fence there is.
    fn commit(&self, world: &mut World, worker: usize, step: Step, answered: bool) {
        let Some(drive) = world.workers[worker].duty.drive() else { return };
        match step {
            Step::Retry => world.left.failures -= 1,
            Step::End { ending: Ending::Failed, .. } if !drive.given_up => world.left.failures -= 1,
            Step::HandOver => world.left.drains -= 1,
            _ => {}
        }
        let held = world.database.is_held(drive.epoch);
        if !held && self.scenario.rules.fence != Fence::None {
            self.seen.see(Witness::ZombieRefused);
            world.workers[worker].duty = Duty::Idle;
            return;
        }
        // Without an intent nothing of the turn is committed before it acts.
        if let (Step::Calls(open), Intent::Absent) = (step, self.scenario.rules.intent) {
            let calls = Calls { todo: open, back: 0 };
            world.workers[worker].duty = Duty::Executing(Drive { open, ..drive }, calls);
            return;
        }
        if self.scenario.rules.fence == Fence::CheckThenWrite {
            world.workers[worker].duty = Duty::Checked(drive, step);
            return;
        }
        self.write(world, worker, step, answered);
    }

    fn write(&self, world: &mut World, worker: usize, step: Step, answered: bool) {
        let duty = world.workers[worker].duty;
        let Some(drive) = duty.drive() else { return };
        world.stale_write |= !world.database.is_held(drive.epoch);
        let keeps_ids = self.scenario.budget.lost_answers > 0 && self.scenario.rules.write_id;
        let write = keeps_ids.then_some((drive.epoch, drive.write));
        let done = world.database.commit(&self.scenario.rules, step, write);
        self.note(step, drive, done);
        let calls = match duty {
            Duty::Executing(_, calls) => calls,
            _ => Calls { todo: 0, back: drive.open },
        };
        if !answered {
            world.workers[worker].duty = Duty::Unsure(drive, step);
            return;
        }
        if done.opened || step == Step::HandOver {
            world.ring();
        }
        world.workers[worker].duty = drive.after(step, done, calls);
    }

    fn note(&self, step: Step, drive: Drive, done: Done) {
        let seen = match step {
            Step::Answer if done.went_on => Witness::ReleaseRace,
            Step::Results { .. } if done.read => Witness::ReadBetweenSteps,
            Step::Read if done.read => Witness::ReadAtTakeover,
            Step::Response(_) => Witness::SideBySide,
            Step::End { ending: Ending::Cancelled, open } => {
                if done.opened {
                    self.seen.see(Witness::NextRunAfterCancel);
                }
                if open == 0 {
                    return;
                }
                Witness::CancelledMidTool
            }
            Step::End { ending: Ending::Failed, .. } if drive.given_up => Witness::DeadLettered,
            Step::End { ending: Ending::Failed, .. } => Witness::GaveUp,
            Step::HandOver => Witness::HandedOver,
            _ => return,
        };
        self.seen.see(seen);
    }

    /// The commit whose answer was lost is sent again.
    fn send_again(&self, world: &mut World, worker: usize) {
        let Duty::Unsure(drive, step) = world.workers[worker].duty else { return };
        let landed = world.database.lock.last_write == Some((drive.epoch, drive.write))
            && world.database.lock.epoch == drive.epoch;
        if !landed {
            return self.commit(world, worker, step, true);
        }
        self.seen.see(Witness::Landed);
        world.workers[worker].duty = if world.database.is_held(drive.epoch) {
            Duty::Loading(Drive { write: drive.write + 1, unread: false, ..drive })
        } else {
            Duty::Idle
        };
    }

    fn load(&self, world: &mut World, worker: usize) {
        let Some(drive) = world.workers[worker].duty.drive() else { return };
        let (duty, seen) = drive.load(&world.database).go(&world.database, &world.executed, &self.scenario);
        seen.into_iter().for_each(|witness| self.seen.see(witness));
        world.workers[worker].duty = duty;
    }

    fn execute(&self, world: &mut World, worker: usize, nth: usize) {
        let Duty::Executing(drive, mut calls) = world.workers[worker].duty else { return };
        world.execute(drive.run, nth);
        if world.repeated[usize::from(drive.run)] != 0 {
            self.seen.see(Witness::ExecutedAgain);
        }
        calls.todo &= !(1 << nth);
        calls.back |= 1 << nth;
        world.workers[worker].duty = Duty::Executing(drive, calls);
    }

    /// What clients, and whoever cares for the queue, do.
    fn ring(&self, world: &mut World, action: Action) {
        match action {
            Action::Post => {
                world.left.posts -= 1;
                world.database.post(&self.scenario.rules);
            }
            Action::Cancel => {
                world.left.cancels -= 1;
                world.database.cancel();
            }
            Action::Flush => {
                world.left.flushes -= 1;
                world.hints = 0;
                world.flushed = true;
                return;
            }
            Action::Duplicate => world.left.duplicates -= 1,
            _ if world.flushed => self.seen.see(Witness::WokenAfterFlush),
            _ => {}
        }
        world.ring();
    }

    /// What happens to a lease or a process.
    fn fate(&self, world: &mut World, action: Action) {
        match action {
            Action::Expire(nth) => {
                if world.workers[nth].duty != Duty::Down {
                    world.left.expiries -= 1;
                }
                world.workers[nth].lease = Lease::Expired;
            }
            Action::Reap(nth) => {
                world.database.reap(u8::try_from(nth).unwrap());
                world.workers[nth].lease = Lease::Reaped;
            }
            Action::Renew(nth) if world.workers[nth].lease == Lease::Expired => {
                if world.database.lock.holder == Holder::Worker(u8::try_from(nth).unwrap()) {
                    self.seen.see(Witness::LeaseCameBack);
                }
                world.workers[nth].lease = Lease::Alive;
            }
            Action::Renew(nth) | Action::Start(nth) => {
                let id = u8::try_from(nth).unwrap();
                if world.workers[nth].duty == Duty::Down {
                    world.database.is_dead_for_good(id);
                } else {
                    self.seen.see(Witness::LivingReaped);
                    if world.database.let_go(id) {
                        self.seen.see(Witness::Acquitted);
                    }
                }
                world.workers[nth].lease = Lease::Alive;
                world.workers[nth].duty = Duty::Idle;
            }
            Action::Crash(nth) => {
                world.left.crashes -= 1;
                world.workers[nth].duty = Duty::Down;
            }
            _ => {}
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::begin(&self.scenario)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.progress(world, actions);
        self.adversity(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Post | Action::Cancel | Action::Flush | Action::Duplicate | Action::Sweep => {
                self.ring(&mut world, action);
            }
            Action::RetryIsDue => world.database.lock.waiting = false,
            Action::Claim(nth) => self.claim(&mut world, nth, true),
            Action::ClaimUnanswered(nth) => {
                world.left.lost_answers -= 1;
                self.claim(&mut world, nth, false);
            }
            Action::Abandon(nth) => {
                if let Duty::Abandoning { epoch, broke_down } = world.workers[nth].duty {
                    self.seen.see(Witness::Abandoned);
                    world.database.abandon(epoch, broke_down);
                }
                world.workers[nth].duty = Duty::Idle;
            }
            Action::Load(nth) => self.load(&mut world, nth),
            Action::Hear(nth) => world.workers[nth].duty.hear(),
            Action::Execute(nth, call) => self.execute(&mut world, nth, call),
            Action::Commit(nth, step) => self.commit(&mut world, nth, step, true),
            Action::CommitUnanswered(nth, step) => {
                world.left.lost_answers -= 1;
                self.commit(&mut world, nth, step, false);
            }
            Action::SendAgain(nth) => self.send_again(&mut world, nth),
            Action::Write(nth) => {
                if let Duty::Checked(_, step) = world.workers[nth].duty {
                    self.write(&mut world, nth, step, true);
                }
            }
            Action::BreakDown(nth) => {
                world.left.breakdowns -= 1;
                if let Some(drive) = world.workers[nth].duty.drive() {
                    world.workers[nth].duty = Duty::Abandoning { epoch: drive.epoch, broke_down: true };
                }
            }
            Action::Expire(_) | Action::Renew(_) | Action::Reap(_) | Action::Start(_) | Action::Crash(_) => {
                self.fate(&mut world, action);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all()
    }
}
