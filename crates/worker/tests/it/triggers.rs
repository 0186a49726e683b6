//! Triggers: workers fire each once, whatever they all see, and however long none was alive.

use std::sync::Arc;

use chrono::TimeDelta;
use houston_domain::clock::{Clock as _, ManualClock, SystemClock};
use houston_domain::id::{AgentableId, Ids, TriggerId};
use houston_domain::trigger::{Misfire, When};
use houston_store::trigger::Trigger;
use serde_json::Value;

use crate::cluster::{TestCluster, eventually};

async fn make(cluster: &TestCluster, goal: AgentableId, when: When, clock: &ManualClock) -> TriggerId {
    let (id, now) = (cluster.ids.beside(goal), clock.now());
    let next_at = when.first_after(now).unwrap();
    let trigger = Trigger {
        id,
        user: cluster.requests().user_of_agentable(goal).await.unwrap(),
        agentable: (goal, "goal".into()),
        name: "Look".into(),
        instructions: "Look around.".into(),
        task: None,
        when,
        next_at,
        enabled: true,
        fired: 0,
        refused: (0, None),
        last_at: None,
        created_at: now,
        updated_at: now,
    };
    cluster.requests().create_trigger(&trigger, (None, &Value::Null)).await.unwrap();
    id
}

async fn fired(cluster: &TestCluster, id: TriggerId) -> i64 {
    cluster.requests().trigger(id).await.unwrap().fired
}

#[tokio::test(flavor = "multi_thread")]
async fn four_workers_fire_times_and_words_once() {
    let mut cluster = TestCluster::start().await;
    let clock = ManualClock::at(SystemClock.now());
    cluster.worker_ids = Arc::new(Ids::new(Arc::new(clock.clone())));
    let goal = cluster.new_goal().await;
    let cron = When::Cron { cron: "0 * * * *".into(), zone: "UTC".into(), misfire: Misfire::Once };
    let cron = make(&cluster, goal, cron, &clock).await;
    let words =
        make(&cluster, goal, When::Keyword { words: vec!["hotel".into()], regex: None }, &clock).await;
    // Several hours pass while no worker is alive.
    clock.advance(TimeDelta::hours(5));
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(cluster.worker());
    }
    eventually("the missed times fire", || async { (fired(&cluster, cron).await == 1).then_some(()) }).await;
    cluster.post(goal, "Which hotel?").await;
    eventually("the word is heard", || async { (fired(&cluster, words).await == 1).then_some(()) }).await;
    clock.advance(TimeDelta::hours(1));
    eventually("the next time fires", || async { (fired(&cluster, cron).await == 2).then_some(()) }).await;
    for worker in workers {
        worker.drain().await;
    }
    let posted = cluster
        .servers
        .sql("select count(*) from houston.messages where metadata ->> 'type' = 'trigger'")
        .unwrap();
    assert_eq!(posted.trim(), "3");
}
