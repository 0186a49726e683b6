//! Lanes that an operator has paused.

use houston_domain::health::HealthStatus;
use houston_domain::run::RunStatus;

use crate::cluster::{TestCluster, assert_status, eventually};
use crate::sweeps::{age, of};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_paused_lane_is_claimed_until_it_goes_on() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    worker.running.registered().await;
    let lanes = cluster.store.api();
    lanes.set_lane_paused("interactive", true).await.unwrap();
    // A worker that begins now knows it before it claims anything.
    let late = cluster.worker();
    late.running.registered().await;
    // A worker that has read it claims nothing of whatever is posted from then on.
    let task = cluster.new_task().await;
    eventually("the worker has read it", || async {
        let posted = cluster.post(cluster.new_goal().await, "probe").await;
        // The lane of tasks goes on, so a task that was posted later and has ended shows that the goal was passed over.
        let later = cluster.post_silently(task, "hello").await;
        cluster.hints.send(houston_queue::Lane::Background, houston_queue::Hint::run(task));
        cluster.wait_for_end(later.run).await;
        let probe = cluster.requests().run(posted.run).await.unwrap();
        (probe.status == RunStatus::Queued).then_some(())
    })
    .await;
    let posted = cluster.post(cluster.goal, "hello").await;
    let later = cluster.post_silently(task, "hello again").await;
    cluster.hints.send(houston_queue::Lane::Background, houston_queue::Hint::run(task));
    assert!(cluster.wait_for_end(later.run).await.status.is_terminal());
    assert_status(&cluster.requests().run(posted.run).await.unwrap(), RunStatus::Queued);
    lanes.set_lane_paused("interactive", false).await.unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    worker.drain().await;
    late.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_monitor_knows_why_paused_work_waits() {
    let cluster = TestCluster::start().await;
    cluster.post_silently(cluster.goal, "hello").await;
    age(&cluster, cluster.goal, "2 minutes");
    let monitor = cluster.monitor();
    let found = async || of(&monitor.run_checks().await.unwrap(), "overdue_work").clone();
    assert_eq!(found().await.status, HealthStatus::Red);
    cluster.store.api().set_lane_paused("interactive", true).await.unwrap();
    let held = found().await;
    assert!(held.status == HealthStatus::Warn && held.detail.ends_with(": interactive"), "{held:?}");
    cluster.store.api().set_lane_paused("interactive", false).await.unwrap();
    // The time in the paused lane makes it no later.
    assert_eq!(found().await.status, HealthStatus::Ok);
}
