//! Postgres: the rows that matter, and all transactions except the one of a step (see `step.rs`).
//!
//! The position of a message is its number; a cancel records how many messages had been posted before it.

use crate::history::{Entry, Set};
use crate::rules::Rules;

/// A reaped worker, where it does not matter which.
const UNKNOWN_WORKER: u8 = u8::MAX;

/// The worker that holds a lock or drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    None,
    Worker(u8),
    /// A worker whose row was reaped; that row never comes back.
    Reaped(u8),
}

/// The state of a worker's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    Alive,
    /// `alive_until` has passed, but the row exists: a renewal makes it alive again.
    Expired,
    Reaped,
}

/// A row of `run_locks`. The epoch also represents the token: a failover that loses a committed epoch is not modelled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    pub(crate) epoch: u8,
    pub(crate) holder: Holder,
    pub(crate) last_write: Option<(u8, u8)>,
    /// Messages before this one are in the history, or were settled by a cancel.
    pub(crate) read: u8,
    pub(crate) wake: bool,
    /// Whether the next attempt is not due yet.
    pub(crate) waiting: bool,
    /// Whether the run waits until a time.
    pub(crate) until: bool,
    pub(crate) failed_attempts: u8,
    /// The column `died_with`, in order.
    pub(crate) died_with: Vec<Death>,
    pub(crate) run: u8,
    pub(crate) open: bool,
}

/// A death that counts against a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Death {
    /// The worker may turn out to be alive.
    Suspected(u8),
    /// The process has restarted since, or the claim broke down.
    Certain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Queued,
    Running,
    Retrying,
    /// It let go of the lock and is open: see [`Awaited`].
    Waiting,
    Completed,
    Cancelled,
    Failed,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Awaited {
    /// It has not asked, and has not waited until a time.
    Nothing,
    /// Its question is open.
    Answer,
    /// Its question is closed: answered, expired, or by the end of the run; or it has waited until a time.
    Arrived,
}

/// A row of `runs`, with its rows of `tool_calls` and `questions`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) status: Status,
    /// Whether it was claimed before (`attempt > 0`).
    pub(crate) attempted: bool,
    pub(crate) cancel: Option<u8>,
    pub(crate) worker: Holder,
    pub(crate) intents: Set,
    pub(crate) responses: Set,
    pub(crate) awaited: Awaited,
    /// How often the run ended; 2 means two or more.
    pub(crate) ends: u8,
}

/// The outcome of a message.
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

/// The result of a claim.
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
        worker: Holder::None,
        intents: 0,
        responses: 0,
        awaited: Awaited::Nothing,
        ends: 0,
    }
}

/// The messages `from..to`; `None` if the range is empty.
pub(crate) fn messages(from: usize, to: usize) -> Option<Set> {
    (from < to).then(|| (from..to).fold(0, |set, nth| set | 1 << nth))
}

impl Database {
    pub(crate) fn empty() -> Self {
        let lock = Lock {
            epoch: 0,
            holder: Holder::None,
            last_write: None,
            read: 0,
            wake: false,
            waiting: false,
            until: false,
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
        if rules.wake || self.lock.holder == Holder::None {
            self.lock.wake = true;
            self.lock.until = false;
        }
        self.messages.push(Outcome::Pending);
    }

    /// `cancel_run` for the open run.
    pub(crate) fn cancel(&mut self) {
        let posted = u8::try_from(self.messages.len()).unwrap();
        self.run().cancel.get_or_insert(posted);
        self.lock.wake = true;
        self.lock.waiting = false;
        self.lock.until = false;
    }

    /// Whether the question of the open run can be closed.
    pub(crate) fn has_open_question(&self) -> bool {
        self.lock.open && self.runs[usize::from(self.lock.run)].awaited == Awaited::Answer
    }

    /// `question::close` and `question::report`: an answer, or the time of the question.
    pub(crate) fn close_question(&mut self) {
        self.run().awaited = Awaited::Arrived;
        self.lock.wake = true;
        self.lock.until = false;
    }

    /// `sweep::wake_waiting`.
    pub(crate) fn wake_waiting(&mut self) {
        self.lock.wake = true;
        self.lock.until = false;
    }

    /// Whether the open run waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.lock.open && self.runs[usize::from(self.lock.run)].status == Status::Waiting
    }

    pub(crate) fn is_dead(&self, holder: Holder, leases: &[Lease]) -> bool {
        match holder {
            Holder::Worker(worker) => leases[usize::from(worker)] != Lease::Alive,
            Holder::Reaped(_) | Holder::None => true,
        }
    }

    /// A claim.
    pub(crate) fn claim(&mut self, rules: &Rules, worker: u8, leases: &[Lease]) -> Option<Claimed> {
        let free = self.is_dead(self.lock.holder, leases) || !rules.claims_free_locks_only;
        let still_waits = self.is_waiting() && !self.lock.wake;
        let claimer_lives = leases[usize::from(worker)] == Lease::Alive;
        if !self.lock.open || self.lock.waiting || still_waits || !free || !claimer_lives {
            return None;
        }
        let run = self.run();
        let (again, takeover) = (run.attempted, run.status == Status::Running);
        run.status = Status::Running;
        run.attempted = true;
        run.worker = Holder::Worker(worker);
        let cancel = run.cancel;
        // Messages posted after the cancel are for the next run.
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
        // A holder that has not released the lock is presumed dead.
        if let Holder::Worker(dead) | Holder::Reaped(dead) = self.lock.holder {
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

    /// `abandon`: checks the token only.
    pub(crate) fn abandon(&mut self, epoch: u8, broke_down: bool) {
        if self.lock.epoch == epoch && self.lock.holder != Holder::None {
            self.lock.holder = Holder::None;
            self.lock.wake = true;
            if broke_down {
                self.lock.died_with.push(Death::Certain);
            }
        }
    }

    /// `release_locks`: a reaped worker is alive. Returns whether a suspected death was taken back.
    pub(crate) fn release_locks(&mut self, worker: u8) -> bool {
        if self.lock.holder == Holder::Reaped(worker) {
            self.lock.holder = Holder::None;
            self.lock.wake = true;
        }
        let before = self.lock.died_with.len();
        self.lock.died_with.retain(|death| *death != Death::Suspected(worker));
        self.lock.died_with.len() < before
    }

    /// A process that died restarts under another id.
    pub(crate) fn confirm_death(&mut self, worker: u8) {
        for death in self.lock.died_with.iter_mut().filter(|death| **death == Death::Suspected(worker)) {
            *death = Death::Certain;
        }
        if self.lock.holder == Holder::Reaped(worker) {
            self.lock.holder = Holder::Reaped(UNKNOWN_WORKER);
        }
    }

    /// `sweep::due`: an agentable with a reason to run and no living holder, or a run without a living worker.
    pub(crate) fn is_due(&self, leases: &[Lease]) -> bool {
        let lock = &self.lock;
        let waits = lock.wake && lock.open && !lock.waiting && self.is_dead(lock.holder, leases);
        let orphaned =
            self.runs.iter().any(|run| run.status == Status::Running && self.is_dead(run.worker, leases));
        waits || orphaned
    }

    /// `reap`: deletes the row of `worker`.
    pub(crate) fn reap(&mut self, worker: u8) {
        let row = Holder::Worker(worker);
        if self.lock.holder == row {
            self.lock.holder = Holder::Reaped(worker);
        }
        for run in self.runs.iter_mut().filter(|run| run.worker == row) {
            run.worker = Holder::Reaped(UNKNOWN_WORKER);
        }
    }

    /// Whether the lock is held under this epoch.
    pub(crate) fn is_held(&self, epoch: u8) -> bool {
        self.lock.epoch == epoch && self.lock.holder != Holder::None
    }
}
