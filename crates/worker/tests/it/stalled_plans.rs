//! What the health monitor makes of plans that wait.

use houston_domain::health::HealthStatus;
use houston_domain::id::AgentableId;
use serde_json::json;

use crate::cluster::{TestCluster, eventually};
use crate::sweeps::{age, look_twice, of};

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_wait_for_nothing_are_woken_and_others_left() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    let ask = |question: &str| {
        let steps = json!([
            {"id": "look", "type": "task", "title": "Look", "instructions": "/sim hold_ms=60000"},
            {"id": "ask", "type": "input", "title": "Ask", "question": question},
        ]);
        let arguments = json!({"goal": "Slow", "steps": steps, "output": "{{ ask.result }}"});
        format!("/sim tool=create_plan args={arguments}")
    };
    let posted = cluster.post(cluster.goal, &ask("Which city?")).await;
    cluster.waits(posted.run).await;
    let sql = |query: &str| cluster.servers.sql(query).unwrap().trim().to_owned();
    eventually("the plan waits for its executor and an answer", || async {
        let waiting = "select count(*) from houston.plans p join houston.run_locks l using (agentable_id)
                       join houston.runs r on r.id = l.run_id where r.status = 'waiting' and not l.wake";
        (sql(waiting) == "1").then_some(())
    })
    .await;
    eventually("the executor works", || async {
        let query = "select count(*) from houston.runs r join houston.agentables a on a.id = r.agentable_id
                      where a.kind = 'executor' and r.status = 'running'";
        (sql(query) == "1").then_some(())
    })
    .await;
    let plan = AgentableId(sql("select agentable_id from houston.plans").parse().unwrap());
    sql("update houston.workers set started_at = now() - interval '8 hours';
         update houston.plans set created_at = created_at - interval '7 hours'");
    for agentable in [cluster.goal, plan] {
        age(&cluster, agentable, "7 hours");
    }
    let monitor = cluster.monitor();
    let checks = monitor.run_checks().await.unwrap();
    for id in ["stale_tasks", "stale_goals", "overdue_work", "stalled_plans"] {
        assert_eq!(of(&checks, id).status, HealthStatus::Ok, "it waits, and for something: {checks:?}");
    }

    // As if what they had done was never said: the executor is not open, nothing is asked, no step has a time.
    sql("update houston.plan_steps set task_id = null, state = state - 'due' where path = 'look';
         update houston.run_locks l set next_attempt_at = null from houston.plans p where p.agentable_id = l.agentable_id");
    let checks = monitor.run_checks().await.unwrap();
    assert_eq!(of(&checks, "stalled_plans").status, HealthStatus::Ok, "there is a question: {checks:?}");
    sql("update houston.questions set state = 'cancelled', closed_at = now();
         update houston.plans set paused = true");
    let checks = monitor.run_checks().await.unwrap();
    assert_eq!(of(&checks, "stalled_plans").status, HealthStatus::Ok, "it is paused: {checks:?}");
    sql("update houston.plans set paused = false");
    look_twice(&monitor, &cluster.monitor(), "stalled_plans").await;
    let attempts = format!("select attempt from houston.runs where agentable_id = '{}'", plan.0);
    eventually("its run looks again", || async { (sql(&attempts) != "1").then_some(()) }).await;
    cluster.requests().cancel_agentable("goal", cluster.goal, false).await.unwrap();
    worker.drain().await;
}
