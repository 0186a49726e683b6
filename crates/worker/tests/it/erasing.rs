//! What was asked to be erased: workers delete it, and drop what they drive of it.

use houston_domain::run::RunStatus;
use houston_store::erasure::Target;

use crate::rig::{Rig, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn workers_delete_what_was_erased_and_go_on_with_the_rest() {
    let rig = Rig::start().await;
    let workers = [rig.worker(), rig.worker()];
    let posted = rig.post(rig.goal, "/sim hold_ms=600000").await;
    eventually("the run starts", || async {
        (rig.store.run(rig.tenant, posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    let (target, id) = (Target::Agentable("goal", rig.goal), rig.ids.next());
    let requested = rig.store.request_erasure(rig.tenant, target, id, None).await.unwrap();
    assert_eq!(requested.stopped, [(rig.goal, posted.run)]);
    eventually("all of it is deleted", || async {
        rig.store.erasure(rig.tenant, id).await.unwrap().completed_at.map(drop)
    })
    .await;
    let left = format!(
        "select (select count(*) from houston.runs where id = '{}')
              + (select count(*) from houston.events where agentable_id = '{}')",
        posted.run.0, rig.goal.0
    );
    assert_eq!(rig.servers.sql(&left).unwrap(), "0");
    let other = rig.new_goal().await;
    let posted = rig.post(other, "hello").await;
    rig.ended(posted.run).await;
    for worker in workers {
        worker.drain().await;
    }
    assert_eq!(rig.servers.sql(&left).unwrap(), "0", "who drove it wrote nothing on the way out");
}
