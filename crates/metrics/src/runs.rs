//! [`Runs`]: runs and their attempts, by queue.

use std::time::Duration;

use houston_domain::agentable::Lane;
use houston_domain::run::RunStatus;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::labels::{Fixed, histograms, metric, of_models, of_runs};

/// How an attempt ended on this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// With the run.
    Ended,
    /// It failed, and there will be another one.
    Retrying,
    /// The run waits for something.
    Waiting,
    /// Another worker goes on with the run.
    HandedOver,
    /// The lock was lost.
    Lost,
    /// The database refused a statement.
    Error,
}

impl Attempt {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        ATTEMPTS[self as usize]
    }
}

/// The values of the label `outcome` of attempts, in the order of [`Attempt`].
const ATTEMPTS: [&str; 6] = ["ended", "retrying", "waiting", "handed_over", "lost", "error"];

/// Statuses before the end of a run, at the beginning of [`RunStatus::ALL`].
const OPEN: usize = 4;
/// Statuses with which runs end.
const ENDED: usize = RunStatus::ALL.len() - OPEN;

/// Runs, by queue.
pub struct Runs([OfQueue; 3]);

struct OfQueue {
    enqueued: Counter,
    attempts: [Counter; ATTEMPTS.len()],
    finished: [Counter; ENDED],
    retries: Counter,
    dead: Counter,
    schedule_latency: Histogram,
    duration: Histogram,
}

impl Runs {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let one =
            |registry: &mut Registry, name, help| metric::<Family<Fixed<1>, Counter>>(registry, (name, help));
        let two =
            |registry: &mut Registry, name, help| metric::<Family<Fixed<2>, Counter>>(registry, (name, help));
        let enqueued = one(registry, "runs_enqueued", "Runs that messages opened over this process's API");
        let attempts =
            two(registry, "attempts", "Attempts of runs that ended on this worker, by how they ended");
        let finished = two(registry, "runs_finished", "Runs that ended on this worker, by their status");
        let retries = one(registry, "retries", "Attempts that failed and have another one after a while");
        let dead = one(registry, "dead", "Runs that were given up because their workers died");
        let latency = "Seconds from the acceptance of a run to the beginning of its first attempt";
        let latency = histograms::<Fixed<1>>(registry, ("schedule_latency_seconds", latency), of_models);
        let duration = "Seconds from the acceptance of a run to its end, with all waiting";
        let duration = histograms::<Fixed<1>>(registry, ("run_duration_seconds", duration), of_runs);
        let of_two = |family: &Family<Fixed<2>, Counter>, queue: Lane, outcome| {
            family.get_or_create_owned(&[("queue", queue.as_str()), ("outcome", outcome)])
        };
        Self(Lane::ALL.map(|queue| {
            let label = [("queue", queue.as_str())];
            OfQueue {
                enqueued: enqueued.get_or_create_owned(&label),
                attempts: ATTEMPTS.map(|outcome| of_two(&attempts, queue, outcome)),
                finished: std::array::from_fn(|n| {
                    of_two(&finished, queue, RunStatus::ALL[OPEN + n].as_str())
                }),
                retries: retries.get_or_create_owned(&label),
                dead: dead.get_or_create_owned(&label),
                schedule_latency: latency.get_or_create_owned(&label),
                duration: duration.get_or_create_owned(&label),
            }
        }))
    }

    /// A message opened a run.
    pub fn enqueued(&self, queue: Lane) {
        self.0[queue as usize].enqueued.inc();
    }

    /// The first attempt of a run began, so long after the run was accepted.
    pub fn started(&self, queue: Lane, after: Duration) {
        self.0[queue as usize].schedule_latency.observe(after.as_secs_f64());
    }

    /// An attempt ended on this worker.
    pub fn attempted(&self, queue: Lane, outcome: Attempt) {
        let of_queue = &self.0[queue as usize];
        of_queue.attempts[outcome as usize].inc();
        if outcome == Attempt::Retrying {
            of_queue.retries.inc();
        }
    }

    /// A run ended, so long after it was accepted.
    pub fn finished(&self, queue: Lane, status: RunStatus, took: Duration) {
        let of_queue = &self.0[queue as usize];
        let ended = RunStatus::ALL.iter().position(|one| *one == status).and_then(|n| n.checked_sub(OPEN));
        if let Some(counter) = ended.and_then(|n| of_queue.finished.get(n)) {
            counter.inc();
            of_queue.duration.observe(took.as_secs_f64());
        }
        if status == RunStatus::DeadLettered {
            of_queue.dead.inc();
        }
    }
}
