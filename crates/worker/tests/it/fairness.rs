use std::collections::HashMap;
use std::time::Duration;

use houston_domain::history::{Block, Role};
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_queue::{Hint, Lane};

use crate::rig::{Rig, assert_status, eventually};

/// No sweep comes in time.
const NEVER: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_starts_the_next_of_its_user_without_a_sweep() {
    let mut rig = Rig::start().await;
    rig.sweep_ms = NEVER;
    let worker = rig.worker();
    worker.running.registered().await;
    // The first sweep, which comes at once, is over when this run is: it finds nothing.
    let first = rig.post(rig.goal, "hello").await;
    rig.ended(first.run).await;
    let goals = rig.more_of("goal", 25).await;
    let mut posts = Vec::new();
    for goal in &goals {
        posts.push(rig.post(*goal, "/sim hold_ms=200").await);
    }
    for posted in &posts {
        assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    }
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_one_user_does_not_delay_another() {
    let mut rig = Rig::start().await;
    rig.slots = 20;
    let goals = rig.more_of("goal", 200).await;
    // All wait before any worker runs. First come, first served would start the message of the other user last.
    let mut flood = Vec::new();
    for goal in &goals {
        flood.push(rig.post(*goal, "/sim hold_ms=250").await);
    }
    let other = rig.new_goal().await;
    let posted = rig.post(other, "hello").await;
    let worker = rig.worker();
    let started = rig.ended(posted.run).await.started_at.unwrap();
    let mut before = 0;
    for posted in &flood {
        let run = rig.store.run(rig.tenant, posted.run).await.unwrap();
        before += usize::from(run.started_at.is_some_and(|at| at < started));
    }
    assert!(before < 100, "{before} of 200 runs of the flood came before");
    // Nobody is left behind.
    for posted in &flood {
        assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    }
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_over_one_goal_is_read_in_order_a_hundred_at_a_time() {
    let rig = Rig::start().await;
    let mut posts = Vec::new();
    for nth in 0..450 {
        posts.push(rig.post_silently(rig.goal, &format!("hello {nth}")).await);
    }
    let worker = rig.worker();
    for posted in &posts {
        let status = eventually("the message is read", || async {
            let status = rig.message(posted.id).await.status;
            status.filter(|status| matches!(status, MessageStatus::Answered | MessageStatus::Failed))
        })
        .await;
        assert_eq!(status, MessageStatus::Answered);
    }
    let mut read = Vec::new();
    for entry in rig.history(rig.goal).await {
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
    rig.events(rig.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interactive_run_does_not_wait_for_background_runs_that_hold_their_slots() {
    let mut rig = Rig::start().await;
    rig.slots = 4;
    let tasks = rig.more_of("task", 6).await;
    let worker = rig.worker();
    let mut held = HashMap::new();
    for task in &tasks {
        let posted = rig.post_silently(*task, "/sim hold_ms=600000").await;
        held.insert(*task, posted.run);
        rig.hints.send(Lane::Background, Hint::run(*task));
    }
    let running = || async {
        let mut running = 0;
        for run in held.values() {
            let status = rig.store.run(rig.tenant, *run).await.unwrap().status;
            running += usize::from(status == RunStatus::Running);
        }
        running
    };
    eventually("background runs hold their slots", || async { (running().await == 2).then_some(()) }).await;
    for round in 0..3 {
        let posted = rig.post(rig.goal, &format!("hello {round}")).await;
        assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
        assert_eq!(running().await, 2, "half of four slots");
    }
    worker.kill.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(30), worker.running.ended()).await;
}
