//! The possible actions in each state.

use crate::database::Lease;
use crate::protocol::Protocol;
use crate::step::{Ending, Step};
use crate::worker::{Calls, RunDriver, WorkerState};
use crate::world::World;

/// An action. The first number is that of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Post,
    Cancel,
    Flush,
    Duplicate,
    Sweep,
    RetryIsDue,
    /// A person answers the question of the run, or the question expires.
    CloseQuestion,
    /// The sweep wakes a run whose time has come.
    WakeWaiting,
    Expire(usize),
    Renew(usize),
    Reap(usize),
    Start(usize),
    Claim(usize),
    /// A claim that succeeds although the worker sees an error.
    ClaimUnanswered(usize),
    Abandon(usize),
    Load(usize),
    /// The worker notices that its run was cancelled.
    NoticeCancel(usize),
    /// A tool call of the turn (second number) is executed.
    Execute(usize, usize),
    Commit(usize, Step),
    /// A commit that is applied although the worker sees an error.
    CommitUnanswered(usize, Step),
    SendAgain(usize),
    /// The write of [`Fence::CheckThenWrite`](crate::rules::Fence::CheckThenWrite).
    Write(usize),
    BreakDown(usize),
    Crash(usize),
}

impl Protocol {
    /// Adds the actions that happen without clients and faults.
    pub(crate) fn progress(&self, world: &World, actions: &mut Vec<Action>) {
        if world.database.lock.waiting {
            actions.push(Action::RetryIsDue);
        }
        if world.database.has_open_question() {
            actions.push(Action::CloseQuestion);
        }
        if self.scenario.rules.sweep && world.database.lock.until {
            actions.push(Action::WakeWaiting);
        }
        for (nth, worker) in world.workers.iter().enumerate() {
            match (worker.lease, &worker.state) {
                (Lease::Alive, WorkerState::Down) => actions.push(Action::Expire(nth)),
                (Lease::Expired, _) => actions.push(Action::Reap(nth)),
                (Lease::Reaped, WorkerState::Down) => actions.push(Action::Start(nth)),
                _ => {}
            }
            if worker.lease != Lease::Alive && worker.state != WorkerState::Down {
                actions.push(Action::Renew(nth));
            }
        }
        for (nth, worker) in world.workers.iter().enumerate() {
            if let Some(driver) = worker.state.driver() {
                let cancelled = world.database.runs[usize::from(driver.run)].cancel.is_some();
                if cancelled && !driver.cancelled {
                    actions.push(Action::NoticeCancel(nth));
                }
            }
            match worker.state {
                WorkerState::Down | WorkerState::Idle => {}
                WorkerState::Abandoning { .. } => actions.push(Action::Abandon(nth)),
                WorkerState::Loading(_) => actions.push(Action::Load(nth)),
                WorkerState::Driving(driver) => {
                    actions
                        .extend(driver.steps(&self.scenario).iter().map(|step| Action::Commit(nth, *step)));
                }
                WorkerState::Executing(driver, calls) => self.executing(nth, driver, calls, actions),
                WorkerState::Unconfirmed(..) => actions.push(Action::SendAgain(nth)),
                WorkerState::Checked(..) => actions.push(Action::Write(nth)),
            }
        }
        for (nth, worker) in world.workers.iter().enumerate() {
            if world.hints > 0 && worker.state == WorkerState::Idle {
                actions.push(Action::Claim(nth));
            }
        }
        if self.scenario.rules.sweep && world.hints == 0 && world.database.is_due(&world.leases()) {
            actions.push(Action::Sweep);
        }
    }

    fn executing(&self, worker: usize, driver: RunDriver, calls: Calls, actions: &mut Vec<Action>) {
        if !driver.cancelled {
            let todo = (0..self.scenario.tools.len()).filter(|nth| calls.todo & (1 << nth) != 0);
            actions.extend(todo.map(|nth| Action::Execute(worker, nth)));
        }
        let steps = driver.steps_with(calls, &self.scenario);
        actions.extend(steps.iter().map(|step| Action::Commit(worker, *step)));
    }

    /// Adds the actions of clients, and faults.
    pub(crate) fn client_and_fault_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let (left, lock) = (&world.left, &world.database.lock);
        if left.posts > 0 {
            actions.push(Action::Post);
        }
        if left.cancels > 0 && lock.open && world.database.runs[usize::from(lock.run)].cancel.is_none() {
            actions.push(Action::Cancel);
        }
        if left.flushes > 0 && world.hints > 0 {
            actions.push(Action::Flush);
        }
        if left.duplicates > 0 && world.hints > 0 {
            actions.push(Action::Duplicate);
        }
        for (nth, worker) in world.workers.iter().enumerate() {
            let busy = !matches!(worker.state, WorkerState::Down | WorkerState::Idle);
            if left.expiries > 0 && worker.lease == Lease::Alive && worker.state != WorkerState::Down {
                actions.push(Action::Expire(nth));
            }
            if left.crashes > 0 && busy {
                actions.push(Action::Crash(nth));
            }
            if left.breakdowns > 0 && worker.state.driver().is_some() {
                actions.push(Action::BreakDown(nth));
            }
            if left.lost_answers > 0 && world.hints > 0 && worker.state == WorkerState::Idle {
                actions.push(Action::ClaimUnanswered(nth));
            }
            if let WorkerState::Driving(driver) = worker.state {
                self.model_steps(world, nth, driver, actions);
            }
        }
        if left.lost_answers > 0 {
            let commits: Vec<Action> = actions.clone();
            actions.extend(commits.into_iter().filter_map(|action| match action {
                Action::Commit(worker, step) => Some(Action::CommitUnanswered(worker, step)),
                _ => None,
            }));
        }
    }

    /// Adds what may happen instead of the model's turn: a failure or a hand-over.
    fn model_steps(&self, world: &World, worker: usize, driver: RunDriver, actions: &mut Vec<Action>) {
        let calls_model =
            driver.steps(&self.scenario).iter().any(|step| matches!(step, Step::Calls(_) | Step::Answer));
        if !calls_model {
            return;
        }
        if world.left.failures > 0 {
            let again = world.database.lock.failed_attempts < self.scenario.max_failures;
            let permanent = Step::End { ending: Ending::Failed, open: 0 };
            actions.push(Action::Commit(worker, if again { Step::Retry } else { permanent }));
        }
        if world.left.drains > 0 {
            actions.push(Action::Commit(worker, Step::HandOver));
        }
    }
}
