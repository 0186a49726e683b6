//! Lanes that an operator has paused.

use houston_domain::run::RunStatus;

use crate::cluster::{TestCluster, assert_status, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_paused_lane_is_claimed_until_it_goes_on() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    worker.running.registered().await;
    let operator = cluster.store.operator();
    operator.set_lane_paused("interactive", true).await.unwrap();
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
    operator.set_lane_paused("interactive", false).await.unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    worker.drain().await;
}
