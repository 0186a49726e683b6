//! The effect of each action. `action.rs` decides which actions are possible.

use std::collections::HashSet;
use std::sync::Mutex;

use stateright::{Model, Property};

use crate::action::Action;
use crate::database::{Claimed, Database, Holder, Lease};
use crate::observation::{Observation, Observations};
use crate::property;
use crate::rules::{Fence, Intent};
use crate::scenario::{Scenario, Waits};
use crate::step::{CommitOutcome, Ending, Step};
use crate::worker::{Calls, RunDriver, WorkerState};
use crate::world::World;

/// A scenario under check.
pub(crate) struct Protocol {
    pub(crate) scenario: Scenario,
    pub(crate) observed: Observations,
    /// States from which everything settles, already checked; see [`crate::liveness`].
    pub(crate) settling: Mutex<HashSet<u64>>,
}

impl Protocol {
    pub(crate) fn new(scenario: Scenario) -> Self {
        Self { scenario, observed: Observations::default(), settling: Mutex::default() }
    }

    fn claim(&self, world: &mut World, worker: usize, answered: bool) {
        world.hints -= 1;
        let leases = world.leases();
        let waited = world.database.lock.failed_attempts > 0;
        let claimer = u8::try_from(worker).unwrap();
        let before = world.database.clone();
        let Some(claimed) = world.database.claim(&self.scenario.rules, claimer, &leases) else {
            self.observed.record(Observation::LateHint);
            return;
        };
        world.second_holder |= !before.is_dead(before.lock.holder, &leases);
        self.note_wake(&before, claimed);
        if claimed.takeover {
            self.observed.record(Observation::Takeover);
        }
        if claimed.cancelled && !claimed.again {
            self.observed.record(Observation::CancelledQueued);
        }
        if waited && claimed.again && !claimed.takeover {
            self.observed.record(Observation::Retried);
        }
        world.workers[worker].state = if answered {
            WorkerState::Loading(RunDriver::begin(claimed, &self.scenario))
        } else {
            WorkerState::Abandoning { epoch: claimed.epoch, broke_down: false }
        };
    }

    /// Records what has woken a waiting run.
    fn note_wake(&self, before: &Database, claimed: Claimed) {
        if !before.is_waiting() {
            return;
        }
        self.observed.record(if claimed.cancelled {
            Observation::WokenByCancel
        } else if usize::from(before.lock.read) < before.messages.len() {
            Observation::WokenByMessage
        } else if self.scenario.waits == Waits::ForAnswer {
            Observation::WokenByAnswer
        } else {
            Observation::WokenByTime
        });
    }

    /// A commit, checked by the scenario's fence.
    fn commit(&self, world: &mut World, worker: usize, step: Step, answered: bool) {
        let Some(driver) = world.workers[worker].state.driver() else { return };
        match step {
            Step::Retry => world.left.failures -= 1,
            Step::End { ending: Ending::Failed, .. } if !driver.given_up => world.left.failures -= 1,
            Step::HandOver => world.left.drains -= 1,
            _ => {}
        }
        let held = world.database.is_held(driver.epoch);
        if !held && self.scenario.rules.fence != Fence::None {
            self.observed.record(Observation::ZombieRefused);
            world.workers[worker].state = WorkerState::Idle;
            return;
        }
        // Without intents, nothing of the turn is committed before its tools are executed.
        if let (Step::Calls(open), Intent::Absent) = (step, self.scenario.rules.intent) {
            let calls = Calls { todo: open, back: 0 };
            world.workers[worker].state = WorkerState::Executing(RunDriver { open, ..driver }, calls);
            return;
        }
        if self.scenario.rules.fence == Fence::CheckThenWrite {
            world.workers[worker].state = WorkerState::Checked(driver, step);
            return;
        }
        self.write(world, worker, step, answered);
    }

    fn write(&self, world: &mut World, worker: usize, step: Step, answered: bool) {
        let state = world.workers[worker].state;
        let Some(driver) = state.driver() else { return };
        world.stale_write |= !world.database.is_held(driver.epoch);
        let keeps_ids = self.scenario.budget.lost_answers > 0 && self.scenario.rules.write_id;
        let write = keeps_ids.then_some((driver.epoch, driver.write));
        let is_awake = world.database.lock.wake;
        let outcome = world.database.commit(&self.scenario.rules, step, write);
        if step == Step::Wait && outcome.went_on {
            let kept = if is_awake { Observation::WaitGaveWay } else { Observation::AnsweredBeforeWait };
            self.observed.record(kept);
        }
        self.note(step, driver, outcome);
        let calls = match state {
            WorkerState::Executing(_, calls) => calls,
            _ => Calls { todo: 0, back: driver.open },
        };
        if !answered {
            world.workers[worker].state = WorkerState::Unconfirmed(driver, step);
            return;
        }
        if outcome.opened || step == Step::HandOver {
            world.add_hint();
        }
        world.workers[worker].state = driver.after(step, outcome, calls);
    }

    fn note(&self, step: Step, driver: RunDriver, outcome: CommitOutcome) {
        let observed = match step {
            Step::Answer if outcome.went_on => Observation::ReleaseRace,
            Step::Results { .. } if outcome.read => Observation::ReadBetweenSteps,
            Step::Read if outcome.read => Observation::ReadAtTakeover,
            Step::Response(_) => Observation::ParallelResponses,
            Step::End { ending: Ending::Cancelled, open } => {
                if outcome.opened {
                    self.observed.record(Observation::NextRunAfterCancel);
                }
                if open == 0 {
                    return;
                }
                Observation::CancelledMidTool
            }
            Step::End { ending: Ending::Failed, .. } if driver.given_up => Observation::DeadLettered,
            Step::End { ending: Ending::Failed, .. } => Observation::GaveUp,
            Step::HandOver => Observation::HandedOver,
            _ => return,
        };
        self.observed.record(observed);
    }

    /// Sends a commit again whose response was lost.
    fn send_again(&self, world: &mut World, worker: usize) {
        let WorkerState::Unconfirmed(driver, step) = world.workers[worker].state else { return };
        let landed = world.database.lock.last_write == Some((driver.epoch, driver.write))
            && world.database.lock.epoch == driver.epoch;
        if !landed {
            return self.commit(world, worker, step, true);
        }
        self.observed.record(Observation::ResentAfterApplied);
        world.workers[worker].state = if world.database.is_held(driver.epoch) {
            WorkerState::Loading(RunDriver { write: driver.write + 1, unread: false, ..driver })
        } else {
            WorkerState::Idle
        };
    }

    fn load(&self, world: &mut World, worker: usize) {
        let Some(driver) = world.workers[worker].state.driver() else { return };
        let (state, observed) =
            driver.load(&world.database).go(&world.database, &world.executed, &self.scenario);
        observed.into_iter().for_each(|observation| self.observed.record(observation));
        world.workers[worker].state = state;
    }

    fn execute(&self, world: &mut World, worker: usize, nth: usize) {
        let WorkerState::Executing(driver, mut calls) = world.workers[worker].state else { return };
        world.execute(driver.run, nth);
        if world.repeated[usize::from(driver.run)] != 0 {
            self.observed.record(Observation::ExecutedAgain);
        }
        calls.todo &= !(1 << nth);
        calls.back |= 1 << nth;
        world.workers[worker].state = WorkerState::Executing(driver, calls);
    }

    /// Actions of clients, of the queue and of the sweep.
    fn client_or_queue_action(&self, world: &mut World, action: Action) {
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
            Action::CloseQuestion => world.database.close_question(),
            _ if world.flushed => self.observed.record(Observation::WokenAfterFlush),
            _ => {}
        }
        world.add_hint();
    }

    /// Actions on leases and processes.
    fn lease_or_process_action(&self, world: &mut World, action: Action) {
        match action {
            Action::Expire(nth) => {
                if world.workers[nth].state != WorkerState::Down {
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
                    self.observed.record(Observation::LeaseCameBack);
                }
                world.workers[nth].lease = Lease::Alive;
            }
            Action::Renew(nth) | Action::Start(nth) => {
                let id = u8::try_from(nth).unwrap();
                if world.workers[nth].state == WorkerState::Down {
                    world.database.confirm_death(id);
                } else {
                    self.observed.record(Observation::LivingReaped);
                    if world.database.release_locks(id) {
                        self.observed.record(Observation::DeathTakenBack);
                    }
                }
                world.workers[nth].lease = Lease::Alive;
                world.workers[nth].state = WorkerState::Idle;
            }
            Action::Crash(nth) => {
                world.left.crashes -= 1;
                world.workers[nth].state = WorkerState::Down;
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
        self.client_and_fault_actions(world, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Post
            | Action::Cancel
            | Action::CloseQuestion
            | Action::Flush
            | Action::Duplicate
            | Action::Sweep => self.client_or_queue_action(&mut world, action),
            Action::WakeWaiting => world.database.wake_waiting(),
            Action::RetryIsDue => world.database.lock.waiting = false,
            Action::Claim(nth) => self.claim(&mut world, nth, true),
            Action::ClaimUnanswered(nth) => {
                world.left.lost_answers -= 1;
                self.claim(&mut world, nth, false);
            }
            Action::Abandon(nth) => {
                if let WorkerState::Abandoning { epoch, broke_down } = world.workers[nth].state {
                    self.observed.record(Observation::Abandoned);
                    world.database.abandon(epoch, broke_down);
                }
                world.workers[nth].state = WorkerState::Idle;
            }
            Action::Load(nth) => self.load(&mut world, nth),
            Action::NoticeCancel(nth) => world.workers[nth].state.notice_cancel(),
            Action::Execute(nth, call) => self.execute(&mut world, nth, call),
            Action::Commit(nth, step) => self.commit(&mut world, nth, step, true),
            Action::CommitUnanswered(nth, step) => {
                world.left.lost_answers -= 1;
                self.commit(&mut world, nth, step, false);
            }
            Action::SendAgain(nth) => self.send_again(&mut world, nth),
            Action::Write(nth) => {
                if let WorkerState::Checked(_, step) = world.workers[nth].state {
                    self.write(&mut world, nth, step, true);
                }
            }
            Action::BreakDown(nth) => {
                world.left.breakdowns -= 1;
                if let Some(driver) = world.workers[nth].state.driver() {
                    world.workers[nth].state =
                        WorkerState::Abandoning { epoch: driver.epoch, broke_down: true };
                }
            }
            Action::Expire(_) | Action::Renew(_) | Action::Reap(_) | Action::Start(_) | Action::Crash(_) => {
                self.lease_or_process_action(&mut world, action);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all()
    }
}
