use houston_domain::id::RunToken;
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;

use crate::rig::{Rig, assert_status, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_race_for_one_agentable_and_answer_each_message_once() {
    let rig = Rig::start().await;
    let (one, other) = (rig.worker(), rig.worker());
    for round in 0..30 {
        let posted = rig.post(rig.goal, &format!("hello {round}")).await;
        // The same hint again, while the first may be anywhere on its way.
        rig.hints.send(houston_queue::Lane::Background, houston_queue::Hint::run(rig.goal));
        assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    }
    assert_eq!(rig.said(rig.goal).await.len(), 30);
    rig.history(rig.goal).await;
    rig.events(rig.goal).await;
    one.drain().await;
    other.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_arrive_in_the_instant_of_release_are_answered() {
    let rig = Rig::start().await;
    let worker = rig.worker();
    // Each round posts while the previous run is about to let go: no pause, no hint but the first.
    let mut posts = Vec::new();
    for round in 0..200 {
        let posted = if round == 0 {
            rig.post(rig.goal, "hello 0").await
        } else {
            rig.post_silently(rig.goal, &format!("hello {round}")).await
        };
        posts.push(posted);
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for posted in posts {
        let status = eventually("the message is answered", || async {
            let message = rig.message(posted.id).await;
            message.status.filter(|status| matches!(status, MessageStatus::Answered | MessageStatus::Failed))
        })
        .await;
        assert_eq!(status, MessageStatus::Answered);
    }
    rig.history(rig.goal).await;
    rig.events(rig.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_many_claims_is_granted_and_a_zombie_cannot_write() {
    let rig = Rig::start().await;
    let posted = rig.post_silently(rig.goal, "hello").await;
    let mut lease = houston_store::lease::LeaseConnection::open(
        rig.servers.database_url(),
        rig.ids.next(),
        std::time::Duration::from_secs(30),
    )
    .await
    .unwrap();
    lease.register("a").await.unwrap();
    let worker = lease.worker();
    let claims = futures_util::future::join_all((0..16).map(|_| {
        let token: RunToken = rig.ids.next();
        rig.store.claim_run(rig.goal, worker, token, rig.ids.next(), houston_store::claim::Crashes::default())
    }))
    .await;
    let granted: Vec<_> = claims.into_iter().filter_map(|claim| claim.unwrap()).collect();
    assert_eq!(granted.len(), 1);

    // The holder dies; another takes over and answers. The first wakes up: nothing of it is accepted.
    lease.resign().await.unwrap();
    let rescuer = rig.worker();
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    let zombie = &granted[0];
    let refused = rig.store.begin_fenced(&zombie.fence).await;
    assert!(matches!(refused, Err(houston_store::Error::Fenced)));
    assert_eq!(rig.said(rig.goal).await.len(), 1);
    rig.history(rig.goal).await;
    rescuer.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drops_everything_leaves_its_run_to_another() {
    let rig = Rig::start().await;
    let doomed = rig.worker();
    let posted = rig.post(rig.goal, "/sim chunks=100 delay_ms=20").await;
    eventually("the run starts", || async {
        (rig.store.run(rig.tenant, posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    doomed.kill.cancel();
    let rescuer = rig.worker();
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert!(run.attempt > 1, "another has taken it over: {run:?}");
    assert_eq!(rig.said(rig.goal).await.len(), 1);
    rig.history(rig.goal).await;
    rig.events(rig.goal).await;
    rescuer.drain().await;
}
