//! Postgres: the rows that decide, and the transactions but one (`commit_step` has a file of its own, `step.rs`).
//!
//! The position of a message is its number; a cancel remembers how many had been posted.

use crate::history::{Entry, Set};
use crate::rules::Rules;

/// Stands for a worker that was reaped, where it does not matter which.
const NOBODY: u8 = u8::MAX;

/// Who holds a lock or drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    Nobody,
    Worker(u8),
    /// A worker whose row was reaped: it never comes back.
    Gone(u8),
}

/// A worker's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    Alive,
    /// `alive_until` has passed, the row is there: a renewal brings it back.
    Expired,
    Reaped,
}

/// `run_locks`. The epoch stands for the token, too: a failover that loses a committed epoch is not modelled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    pub(crate) epoch: u8,
    pub(crate) holder: Holder,
    pub(crate) last_write: Option<(u8, u8)>,
    /// Messages before this one have entered the history, or were taken along by a cancel.
    pub(crate) read: u8,
    pub(crate) wake: bool,
    /// The next attempt is not due yet.
    pub(crate) waiting: bool,
    pub(crate) failed_attempts: u8,
    /// `died_with`, in order.
    pub(crate) died_with: Vec<Death>,
    pub(crate) run: u8,
    pub(crate) open: bool,
}

/// Something a run is held responsible for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Death {
    /// Of a worker that may turn out to live.
    Suspected(u8),
    /// Of a process that has started again since, or a claim that broke down.
    Certain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Queued,
    Running,
    Retrying,
    Completed,
    Cancelled,
    Failed,
}

/// A row of `runs` with its rows of `tool_calls`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) status: Status,
    /// Whether it was claimed before (`attempt > 0`).
    pub(crate) attempted: bool,
    pub(crate) cancel: Option<u8>,
    pub(crate) worker: Holder,
    pub(crate) intents: Set,
    pub(crate) responses: Set,
    /// How often it ended: 2 stands for more.
    pub(crate) ends: u8,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Pending,
    Answered,
    Cancelled { run: u8 },
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Database {
    pub(crate) lock: Lock,
    pub(crate) runs: Vec<Run>,
    pub(crate) messages: Vec<Outcome>,
    pub(crate) history: Vec<Entry>,
}

/// What a claim returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    pub(crate) epoch: u8,
    pub(crate) run: u8,
    pub(crate) again: bool,
    pub(crate) deaths: u8,
    pub(crate) cancelled: bool,
    pub(crate) takeover: bool,
}

pub(crate) fn queued() -> Run {
    Run {
        status: Status::Queued,
        attempted: false,
        cancel: None,
        worker: Holder::Nobody,
        intents: 0,
        responses: 0,
        ends: 0,
    }
}

/// The messages `from..to`, if any.
pub(crate) fn messages(from: usize, to: usize) -> Option<Set> {
    (from < to).then(|| (from..to).fold(0, |set, nth| set | 1 << nth))
}

impl Database {
    pub(crate) fn empty() -> Self {
        let lock = Lock {
            epoch: 0,
            holder: Holder::Nobody,
            last_write: None,
            read: 0,
            wake: false,
            waiting: false,
            failed_attempts: 0,
            died_with: Vec::new(),
            run: 0,
            open: false,
        };
        Self { lock, runs: Vec::new(), messages: Vec::new(), history: Vec::new() }
    }

    pub(crate) fn open_run(&mut self) {
        self.lock.run = u8::try_from(self.runs.len()).unwrap();
        self.lock.open = true;
        self.runs.push(queued());
    }

    pub(crate) fn run(&mut self) -> &mut Run {
        &mut self.runs[usize::from(self.lock.run)]
    }

    /// `post_message`.
    pub(crate) fn post(&mut self, rules: &Rules) {
        if !self.lock.open {
            self.lock.failed_attempts = 0;
            self.lock.waiting = false;
            self.open_run();
        }
        if rules.wake || self.lock.holder == Holder::Nobody {
            self.lock.wake = true;
        }
        self.messages.push(Outcome::Pending);
    }

    /// `cancel_run`, of the open run.
    pub(crate) fn cancel(&mut self) {
        let posted = u8::try_from(self.messages.len()).unwrap();
        self.run().cancel.get_or_insert(posted);
        self.lock.wake = true;
        self.lock.waiting = false;
    }

    pub(crate) fn is_dead(&self, holder: Holder, leases: &[Lease]) -> bool {
        match holder {
            Holder::Worker(worker) => leases[usize::from(worker)] != Lease::Alive,
            Holder::Gone(_) | Holder::Nobody => true,
        }
    }

    /// `claim_run`.
    pub(crate) fn claim(&mut self, rules: &Rules, worker: u8, leases: &[Lease]) -> Option<Claimed> {
        let free = self.is_dead(self.lock.holder, leases);
        let claimer_lives = leases[usize::from(worker)] == Lease::Alive;
        if !self.lock.open || self.lock.waiting || !free || !claimer_lives {
            return None;
        }
        let run = self.run();
        let (again, takeover) = (run.attempted, run.status == Status::Running);
        run.status = Status::Running;
        run.attempted = true;
        run.worker = Holder::Worker(worker);
        let cancel = run.cancel;
        // What was posted after the cancel is for the next run.
        let bound = cancel.filter(|_| rules.cancel_bounds);
        let posted = bound.map_or(self.messages.len(), usize::from);
        let wake = self.lock.wake && bound.is_some();
        let unread = messages(usize::from(self.lock.read), posted).filter(|_| self.lock.wake);
        let fresh = unread.filter(|_| !again);
        if let Some(messages) = fresh {
            self.history.push(Entry::User { messages });
            self.lock.read = u8::try_from(posted).unwrap();
        }
        self.lock.epoch += 1;
        // Who has not let go is dead, or so it seems.
        if let Holder::Worker(dead) | Holder::Gone(dead) = self.lock.holder {
            self.lock.died_with.push(Death::Suspected(dead));
        }
        self.lock.holder = Holder::Worker(worker);
        self.lock.waiting = false;
        self.lock.wake = wake || (unread.is_some() && fresh.is_none());
        Some(Claimed {
            epoch: self.lock.epoch,
            run: self.lock.run,
            again,
            deaths: u8::try_from(self.lock.died_with.len()).unwrap(),
            cancelled: cancel.is_some(),
            takeover,
        })
    }

    /// `abandon`: by the token alone.
    pub(crate) fn abandon(&mut self, epoch: u8, broke_down: bool) {
        if self.lock.epoch == epoch && self.lock.holder != Holder::Nobody {
            self.lock.holder = Holder::Nobody;
            self.lock.wake = true;
            if broke_down {
                self.lock.died_with.push(Death::Certain);
            }
        }
    }

    /// `let_go`: a worker that was reaped lives. Returns whether a death was taken back.
    pub(crate) fn let_go(&mut self, worker: u8) -> bool {
        if self.lock.holder == Holder::Gone(worker) {
            self.lock.holder = Holder::Nobody;
            self.lock.wake = true;
        }
        let before = self.lock.died_with.len();
        self.lock.died_with.retain(|death| *death != Death::Suspected(worker));
        self.lock.died_with.len() < before
    }

    /// A process that died starts again, under another id.
    pub(crate) fn is_dead_for_good(&mut self, worker: u8) {
        for death in self.lock.died_with.iter_mut().filter(|death| **death == Death::Suspected(worker)) {
            *death = Death::Certain;
        }
        if self.lock.holder == Holder::Gone(worker) {
            self.lock.holder = Holder::Gone(NOBODY);
        }
    }

    /// `sweep::due`: a reason to look that nobody alive knows of, or an orphaned run.
    pub(crate) fn is_due(&self, leases: &[Lease]) -> bool {
        let lock = &self.lock;
        let waits = lock.wake && lock.open && !lock.waiting && self.is_dead(lock.holder, leases);
        let orphaned =
            self.runs.iter().any(|run| run.status == Status::Running && self.is_dead(run.worker, leases));
        waits || orphaned
    }

    /// `reap`: the row of `worker` goes.
    pub(crate) fn reap(&mut self, worker: u8) {
        let row = Holder::Worker(worker);
        if self.lock.holder == row {
            self.lock.holder = Holder::Gone(worker);
        }
        for run in self.runs.iter_mut().filter(|run| run.worker == row) {
            run.worker = Holder::Gone(NOBODY);
        }
    }

    /// Whether the lock is held under this epoch.
    pub(crate) fn is_held(&self, epoch: u8) -> bool {
        self.lock.epoch == epoch && self.lock.holder != Holder::Nobody
    }
}
