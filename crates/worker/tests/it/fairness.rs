use std::collections::HashMap;
use std::time::Duration;

use houston_domain::history::{Block, Role};
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_queue::{Hint, Lane};

use crate::cluster::{TestCluster, assert_status, eventually};

/// A sweep period longer than any test.
const NEVER: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn end_of_a_run_starts_its_users_next_without_a_sweep() {
    let mut cluster = TestCluster::start().await;
    cluster.sweep_ms = NEVER;
    let worker = cluster.worker();
    worker.running.registered().await;
    // The first sweep runs at once and ends before this run: it finds nothing.
    let first = cluster.post(cluster.goal, "hello").await;
    cluster.wait_for_end(first.run).await;
    let goals = cluster.create_agentables("goal", 25).await;
    let mut posts = Vec::new();
    for goal in &goals {
        posts.push(cluster.post(*goal, "/sim hold_ms=200").await);
    }
    for posted in &posts {
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    }
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_one_user_does_not_delay_another() {
    let mut cluster = TestCluster::start().await;
    cluster.slots = 20;
    let goals = cluster.create_agentables("goal", 120).await;
    // All wait before any worker runs. In order of arrival the other user's message would be last. A second each, so that a busy
    // machine has time to look at who waits.
    let mut flood = Vec::new();
    for goal in &goals {
        flood.push(cluster.post(*goal, "/sim hold_ms=1000").await);
    }
    let other = cluster.new_goal().await;
    let posted = cluster.post(other, "hello").await;
    let worker = cluster.worker();
    let started = cluster.wait_for_end(posted.run).await.started_at.unwrap();
    let mut before = 0;
    for posted in &flood {
        let run = cluster.requests().run(posted.run).await.unwrap();
        before += usize::from(run.started_at.is_some_and(|at| at < started));
    }
    assert!(before < 100, "{before} of 120 runs of the flood came before");
    // All messages are answered.
    for posted in &flood {
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    }
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_one_goal_is_read_in_order_by_hundreds() {
    let cluster = TestCluster::start().await;
    let mut posts = Vec::new();
    for nth in 0..450 {
        posts.push(cluster.post_silently(cluster.goal, &format!("hello {nth}")).await);
    }
    let worker = cluster.worker();
    for posted in &posts {
        let status = eventually("the message is read", || async {
            let status = cluster.message(posted.id).await.status;
            status.filter(|status| matches!(status, MessageStatus::Answered | MessageStatus::Failed))
        })
        .await;
        assert_eq!(status, MessageStatus::Answered);
    }
    let mut read = Vec::new();
    for entry in cluster.history(cluster.goal).await {
        let texts: Vec<String> = entry
            .content
            .iter()
            .filter_map(|block| match block {
                Block::Text { text, .. } if entry.role == Role::User => Some(text.clone()),
                _ => None,
            })
            .collect();
        assert!(texts.len() <= 100, "{} messages in one entry", texts.len());
        read.extend(texts);
    }
    assert_eq!(read, (0..450).map(|nth| format!("hello {nth}")).collect::<Vec<_>>());
    cluster.events(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interactive_run_does_not_wait_for_background_slots() {
    let mut cluster = TestCluster::start().await;
    cluster.slots = 4;
    let tasks = cluster.create_agentables("task", 6).await;
    let worker = cluster.worker();
    let mut held = HashMap::new();
    for task in &tasks {
        let posted = cluster.post_silently(*task, "/sim hold_ms=600000").await;
        held.insert(*task, posted.run);
        cluster.hints.send(Lane::Background, Hint::run(*task));
    }
    let running = || async {
        let mut running = 0;
        for run in held.values() {
            let status = cluster.requests().run(*run).await.unwrap().status;
            running += usize::from(status == RunStatus::Running);
        }
        running
    };
    eventually("background runs hold their slots", || async { (running().await == 2).then_some(()) }).await;
    for round in 0..3 {
        let posted = cluster.post(cluster.goal, &format!("hello {round}")).await;
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
        assert_eq!(running().await, 2, "half of four slots");
    }
    worker.kill.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(30), worker.running.ended()).await;
}
