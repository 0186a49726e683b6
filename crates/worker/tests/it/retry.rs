//! A retry begins at the time that the user was shown.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::clock::{Clock, SystemClock};
use houston_domain::id::Ids;
use houston_domain::run::RunStatus;
use houston_queue::{Hint, Lane};

use crate::cluster::{TestCluster, assert_status, eventually};

/// A clock that is wrong by this much.
struct Wrong(TimeDelta);

impl Clock for Wrong {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + self.0
    }
}

/// A sweep period longer than the test: only the worker's own hint can start the retry.
async fn cluster(wrong: TimeDelta) -> TestCluster {
    let mut cluster = TestCluster::start().await;
    cluster.sweep_ms = 3_600_000;
    cluster.slots = 4;
    cluster.worker_ids = Arc::new(Ids::new(Arc::new(Wrong(wrong))));
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_clock_neither_delays_nor_loses_a_retry() {
    for hours in [-1, 1] {
        let cluster = cluster(TimeDelta::hours(hours)).await;
        let worker = cluster.worker();
        worker.running.registered().await;
        let posted = cluster.post(cluster.goal, "/sim fail=unknown").await;
        let run = cluster.wait_for_end(posted.run).await;
        assert_eq!((run.status, run.attempt), (RunStatus::Failed, 3), "{hours} h off");
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_in_all_background_slots_do_not_delay_a_users_retry() {
    let cluster = cluster(TimeDelta::zero()).await;
    let worker = cluster.worker();
    worker.running.registered().await;
    // Two of the four slots are for background runs.
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let task = cluster.new_task().await;
        let posted = cluster.post_silently(task, "/sim hold_ms=600000").await;
        cluster.hints.send(Lane::Background, Hint::run(task));
        tasks.push(posted.run);
    }
    for task in &tasks {
        eventually("the tasks take their slots", || async {
            let run = cluster.requests().run(*task).await.ok()?;
            (run.status == RunStatus::Running).then_some(())
        })
        .await;
    }
    let posted = cluster.post(cluster.goal, "/sim fail=unknown").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::Failed, 3));
    for task in tasks {
        cluster.requests().cancel_run(task).await.unwrap();
        assert_status(&cluster.wait_for_end(task).await, RunStatus::Cancelled);
    }
    worker.drain().await;
}
