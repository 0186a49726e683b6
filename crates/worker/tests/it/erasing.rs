//! Erasures: workers delete the data, and drop the runs they drive for it.

use houston_domain::run::RunStatus;
use houston_store::erasure::Target;

use crate::cluster::{TestCluster, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn workers_delete_erased_data_and_continue_with_the_rest() {
    let cluster = TestCluster::start().await;
    let workers = [cluster.worker(), cluster.worker()];
    let posted = cluster.post(cluster.goal, "/sim hold_ms=600000").await;
    eventually("the run starts", || async {
        (cluster.requests().run(posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    let (target, id) = (Target::Agentable("goal", cluster.goal), cluster.ids.next());
    let requested = cluster.requests().request_erasure(target, id, None).await.unwrap();
    assert_eq!(requested.stopped, [(cluster.goal, posted.run)]);
    eventually("all of it is deleted", || async {
        cluster.requests().erasure(id).await.unwrap().completed_at.map(drop)
    })
    .await;
    let left = format!(
        "select (select count(*) from houston.runs where id = '{}')
              + (select count(*) from houston.messages where agentable_id = '{}')",
        posted.run.0, cluster.goal.0
    );
    assert_eq!(cluster.servers.sql(&left).unwrap(), "0");
    let other = cluster.new_goal().await;
    let posted = cluster.post(other, "hello").await;
    cluster.wait_for_end(posted.run).await;
    for worker in workers {
        worker.drain().await;
    }
    assert_eq!(cluster.servers.sql(&left).unwrap(), "0", "who drove it wrote nothing on the way out");
}
