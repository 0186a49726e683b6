//! What may happen, and when.

use crate::database::Lease;
use crate::protocol::Protocol;
use crate::step::{Ending, Step};
use crate::worker::{Calls, Drive, Duty};
use crate::world::World;

/// One thing that happens. The number is the worker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Post,
    Cancel,
    Flush,
    Duplicate,
    Sweep,
    RetryIsDue,
    Expire(usize),
    Renew(usize),
    Reap(usize),
    Start(usize),
    Claim(usize),
    /// A claim that is granted; the worker sees an error.
    ClaimUnanswered(usize),
    Abandon(usize),
    Load(usize),
    /// The worker hears that its run was cancelled.
    Hear(usize),
    /// A call of the turn acts outside.
    Execute(usize, usize),
    Commit(usize, Step),
    /// A commit that lands; the worker sees an error.
    CommitUnanswered(usize, Step),
    SendAgain(usize),
    /// Check-then-write: the write.
    Write(usize),
    BreakDown(usize),
    Crash(usize),
}

impl Protocol {
    /// What happens by itself if nothing goes wrong.
    pub(crate) fn progress(&self, world: &World, actions: &mut Vec<Action>) {
        if world.database.lock.waiting {
            actions.push(Action::RetryIsDue);
        }
        for (nth, worker) in world.workers.iter().enumerate() {
            match (worker.lease, &worker.duty) {
                (Lease::Alive, Duty::Down) => actions.push(Action::Expire(nth)),
                (Lease::Expired, _) => actions.push(Action::Reap(nth)),
                (Lease::Reaped, Duty::Down) => actions.push(Action::Start(nth)),
                _ => {}
            }
            if worker.lease != Lease::Alive && worker.duty != Duty::Down {
                actions.push(Action::Renew(nth));
            }
        }
        for (nth, worker) in world.workers.iter().enumerate() {
            if let Some(drive) = worker.duty.drive() {
                let cancelled = world.database.runs[usize::from(drive.run)].cancel.is_some();
                if cancelled && !drive.cancelled {
                    actions.push(Action::Hear(nth));
                }
            }
            match worker.duty {
                Duty::Down | Duty::Idle => {}
                Duty::Abandoning { .. } => actions.push(Action::Abandon(nth)),
                Duty::Loading(_) => actions.push(Action::Load(nth)),
                Duty::Driving(drive) => {
                    actions.extend(drive.steps(&self.scenario).iter().map(|step| Action::Commit(nth, *step)));
                }
                Duty::Executing(drive, calls) => self.executing(nth, drive, calls, actions),
                Duty::Unsure(..) => actions.push(Action::SendAgain(nth)),
                Duty::Checked(..) => actions.push(Action::Write(nth)),
            }
        }
        for (nth, worker) in world.workers.iter().enumerate() {
            if world.hints > 0 && worker.duty == Duty::Idle {
                actions.push(Action::Claim(nth));
            }
        }
        if self.scenario.rules.sweep && world.hints == 0 && world.database.is_due(&world.leases()) {
            actions.push(Action::Sweep);
        }
    }

    fn executing(&self, worker: usize, drive: Drive, calls: Calls, actions: &mut Vec<Action>) {
        if !drive.cancelled {
            let todo = (0..self.scenario.tools.len()).filter(|nth| calls.todo & (1 << nth) != 0);
            actions.extend(todo.map(|nth| Action::Execute(worker, nth)));
        }
        let steps = drive.steps_with(calls, &self.scenario);
        actions.extend(steps.iter().map(|step| Action::Commit(worker, *step)));
    }

    /// What clients and faults add.
    pub(crate) fn adversity(&self, world: &World, actions: &mut Vec<Action>) {
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
            let busy = !matches!(worker.duty, Duty::Down | Duty::Idle);
            if left.expiries > 0 && worker.lease == Lease::Alive && worker.duty != Duty::Down {
                actions.push(Action::Expire(nth));
            }
            if left.crashes > 0 && busy {
                actions.push(Action::Crash(nth));
            }
            if left.breakdowns > 0 && worker.duty.drive().is_some() {
                actions.push(Action::BreakDown(nth));
            }
            if left.lost_answers > 0 && world.hints > 0 && worker.duty == Duty::Idle {
                actions.push(Action::ClaimUnanswered(nth));
            }
            if let Duty::Driving(drive) = worker.duty {
                self.model_steps(world, nth, drive, actions);
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

    /// What may come instead of the model's turn.
    fn model_steps(&self, world: &World, worker: usize, drive: Drive, actions: &mut Vec<Action>) {
        let calls_model =
            drive.steps(&self.scenario).iter().any(|step| matches!(step, Step::Calls(_) | Step::Answer));
        if !calls_model {
            return;
        }
        if world.left.failures > 0 {
            let again = world.database.lock.failed_attempts < self.scenario.max_failures;
            let for_good = Step::End { ending: Ending::Failed, open: 0 };
            actions.push(Action::Commit(worker, if again { Step::Retry } else { for_good }));
        }
        if world.left.drains > 0 {
            actions.push(Action::Commit(worker, Step::HandOver));
        }
    }
}
