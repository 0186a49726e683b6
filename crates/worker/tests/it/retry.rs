//! When the next attempt of a run begins: at the time its user was told.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::clock::{Clock, SystemClock};
use houston_domain::id::Ids;
use houston_domain::run::RunStatus;
use houston_queue::{Hint, Lane};

use crate::rig::{Rig, assert_status, eventually};

/// A machine whose clock is wrong by so much.
struct Wrong(TimeDelta);

impl Clock for Wrong {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + self.0
    }
}

/// A worker that is rung for a retry, or never comes: no sweep does it.
async fn rig(wrong: TimeDelta) -> Rig {
    let mut rig = Rig::start().await;
    rig.sweep_ms = 3_600_000;
    rig.slots = 4;
    rig.worker_ids = Arc::new(Ids::new(Arc::new(Wrong(wrong))));
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_wrong_neither_delays_a_retry_nor_loses_it() {
    for hours in [-1, 1] {
        let rig = rig(TimeDelta::hours(hours)).await;
        let worker = rig.worker();
        worker.running.registered().await;
        let posted = rig.post(rig.goal, "/sim fail=unknown").await;
        let run = rig.ended(posted.run).await;
        assert_eq!((run.status, run.attempt), (RunStatus::Failed, 3), "{hours} h off");
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_take_all_their_slots_do_not_delay_a_persons_retry() {
    let rig = rig(TimeDelta::zero()).await;
    let worker = rig.worker();
    worker.running.registered().await;
    // Half of four slots are for tasks.
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let task = rig.new_task().await;
        let posted = rig.post_silently(task, "/sim hold_ms=600000").await;
        rig.hints.send(Lane::Background, Hint::run(task));
        tasks.push(posted.run);
    }
    for task in &tasks {
        eventually("the tasks take their slots", || async {
            let run = rig.store.run(rig.tenant, *task).await.ok()?;
            (run.status == RunStatus::Running).then_some(())
        })
        .await;
    }
    let posted = rig.post(rig.goal, "/sim fail=unknown").await;
    let run = rig.ended(posted.run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Failed, 3));
    for task in tasks {
        rig.store.cancel_run(rig.tenant, task).await.unwrap();
        assert_status(&rig.ended(task).await, RunStatus::Cancelled);
    }
    worker.drain().await;
}
