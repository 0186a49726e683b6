//! Counts what becomes of runs on this worker: see [`houston_metrics::runs`].

use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use houston_metrics::runs::Attempt;
use houston_metrics::{Metrics, Queue};
use houston_queue::Lane;
use houston_store::claim::ClaimedRun;
use tokio::time::Instant;

use crate::run::driver::DriveOutcome;

/// One attempt of a run on this worker.
pub(crate) struct Meter {
    queue: Queue,
    /// From the acceptance of the run to its claim.
    waited: Duration,
    claimed: Instant,
}

impl Meter {
    /// The attempt begins.
    pub(crate) fn start(metrics: &Metrics, claimed: &ClaimedRun, lane: Lane) -> Self {
        let queue = queue_of(lane);
        // An id has the time at which it was made; the clocks of two machines may differ.
        let waited = (claimed.event.at - accepted(claimed.run).unwrap_or(claimed.event.at)).to_std();
        let waited = waited.unwrap_or_default();
        if claimed.attempt == 1 {
            metrics.runs.started(queue, waited);
        }
        Self { queue, waited, claimed: Instant::now() }
    }

    /// The attempt ended.
    pub(crate) fn end(&self, metrics: &Metrics, outcome: Result<DriveOutcome, &houston_store::Error>) {
        let attempt = match outcome {
            Ok(DriveOutcome::NotClaimed) => return,
            Ok(DriveOutcome::Ended(status)) => {
                self.finish(metrics, status);
                Attempt::Ended
            }
            Ok(DriveOutcome::Retrying { .. }) => Attempt::Retrying,
            Ok(DriveOutcome::Waiting { .. }) => Attempt::Waiting,
            Ok(DriveOutcome::HandedOver) => Attempt::HandedOver,
            Ok(DriveOutcome::Lost) => Attempt::Lost,
            Err(_) => Attempt::Error,
        };
        metrics.runs.attempted(self.queue, attempt);
    }

    fn finish(&self, metrics: &Metrics, status: RunStatus) {
        metrics.runs.finished(self.queue, status, self.waited + self.claimed.elapsed());
    }
}

fn queue_of(lane: Lane) -> Queue {
    match lane {
        Lane::Interactive => Queue::Interactive,
        Lane::Background => Queue::Background,
        Lane::Maintenance => Queue::Maintenance,
    }
}

/// When a run was accepted.
fn accepted(run: RunId) -> Option<DateTime<Utc>> {
    let (seconds, nanos) = run.0.get_timestamp()?.to_unix();
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
}
