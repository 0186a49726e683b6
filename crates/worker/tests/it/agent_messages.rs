//! The health monitor deletes what was noted of messages that agents posted and of goals that they made.

use houston_domain::health::Check;

use crate::cluster::TestCluster;

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_deleted_once_their_runs_ended() {
    let cluster = TestCluster::start().await;
    // One whose run waits for a worker, and one whose run is gone.
    let run = cluster.post_silently(cluster.goal, "hello").await.run;
    let noted = |run: &str, by: &str, hops: i32| {
        let insert = format!(
            "insert into houston.agent_messages (message_id, tenant_id, user_id, from_run, agentable_id, hops, created_at)
             select gen_random_uuid(), a.tenant_id, a.user_id, {run}, a.id, {hops}, now() - interval '{by}'
               from houston.agentables a where a.id = '{}'",
            cluster.goal.0
        );
        cluster.servers.sql(&insert).unwrap();
    };
    noted(&format!("'{}'", run.0), "25 hours", 1);
    noted("gen_random_uuid()", "25 hours", 2);
    noted("gen_random_uuid()", "23 hours", 3);
    let made = format!(
        "insert into houston.made_conversations (agentable_id, tenant_id, user_id, from_run, created_at)
         select a.id, a.tenant_id, a.user_id, gen_random_uuid(), now() - interval '25 hours'
           from houston.agentables a where a.id = '{}'",
        cluster.goal.0
    );
    cluster.servers.sql(&made).unwrap();
    let monitor = cluster.monitor();
    let left = || {
        let posted = "select string_agg(hops::text, ' ' order by hops) from houston.agent_messages";
        cluster.servers.sql(posted).unwrap().trim().to_owned()
    };
    let detail =
        |checks: &[Check]| checks.iter().find(|check| check.id == "agent_messages").unwrap().detail.clone();
    let checks = monitor.run_checks().await.unwrap();
    let expected = "the counts of 1 posts and 1 new goals older than 1 d were deleted";
    assert_eq!((detail(&checks).as_str(), left().as_str()), (expected, "1 3"));
    cluster.servers.sql(&format!("update houston.runs set ended_at = now() where id = '{}'", run.0)).unwrap();
    monitor.run_checks().await.unwrap();
    assert_eq!(left(), "3");
}
