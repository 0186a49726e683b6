use houston_domain::id::RunToken;
use houston_domain::message::MessageStatus;
use houston_domain::run::RunStatus;
use houston_store::claim::{Claim, ClaimRequest, CrashPolicy, Trial};
use houston_store::lease::{LeaseConnection, WorkerDescription};

use crate::cluster::{TestCluster, assert_status, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_answer_each_message_of_an_agentable_once() {
    let cluster = TestCluster::start().await;
    let (one, other) = (cluster.worker(), cluster.worker());
    for round in 0..30 {
        let posted = cluster.post(cluster.goal, &format!("hello {round}")).await;
        // The same hint again, while the first may still be in flight.
        cluster.hints.send(houston_queue::Lane::Background, houston_queue::Hint::run(cluster.goal));
        assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    }
    assert_eq!(cluster.agent_messages(cluster.goal).await.len(), 30);
    cluster.history(cluster.goal).await;
    cluster.events(cluster.goal).await;
    one.drain().await;
    other.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_arriving_during_release_are_answered() {
    let cluster = TestCluster::start().await;
    let worker = cluster.worker();
    // Each round posts while the previous run is being released: without a pause, and only the first with a hint.
    let mut posts = Vec::new();
    for round in 0..200 {
        let posted = if round == 0 {
            cluster.post(cluster.goal, "hello 0").await
        } else {
            cluster.post_silently(cluster.goal, &format!("hello {round}")).await
        };
        posts.push(posted);
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for posted in posts {
        let status = eventually("the message is answered", || async {
            let message = cluster.message(posted.id).await;
            message.status.filter(|status| matches!(status, MessageStatus::Answered | MessageStatus::Failed))
        })
        .await;
        assert_eq!(status, MessageStatus::Answered);
    }
    cluster.history(cluster.goal).await;
    cluster.events(cluster.goal).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_claims_succeeds_and_a_zombie_cannot_write() {
    let cluster = TestCluster::start().await;
    let posted = cluster.post_silently(cluster.goal, "hello").await;
    let mut lease = LeaseConnection::open(
        cluster.servers.database_url(),
        cluster.ids.next(),
        std::time::Duration::from_secs(30),
    )
    .await
    .unwrap();
    lease.register(WorkerDescription { name: "a".into(), ..WorkerDescription::default() }).await.unwrap();
    let worker = lease.worker();
    let claims = futures_util::future::join_all((0..16).map(|_| {
        let token: RunToken = cluster.ids.next();
        cluster.runs().claim(ClaimRequest {
            agentable: cluster.goal,
            worker,
            token,
            next_message: cluster.ids.next(),
            crashes: CrashPolicy::default(),
            trial: Trial::None,
            context: None,
        })
    }))
    .await;
    let granted = claims.into_iter().filter_map(|claim| match claim.unwrap() {
        Claim::Run(claimed) => Some(claimed),
        _ => None,
    });
    let granted: Vec<_> = granted.collect();
    assert_eq!(granted.len(), 1);

    // The holder dies and another worker takes over and answers. When the first wakes up, its writes are refused.
    lease.deregister().await.unwrap();
    let rescuer = cluster.worker();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let zombie = &granted[0];
    let refused = cluster.runs().begin_fenced(&zombie.fence).await;
    assert!(matches!(refused, Err(houston_store::Error::Fenced)));
    assert_eq!(cluster.agent_messages(cluster.goal).await.len(), 1);
    cluster.history(cluster.goal).await;
    rescuer.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_worker_takes_over_the_run_of_a_killed_one() {
    let cluster = TestCluster::start().await;
    let doomed = cluster.worker();
    let posted = cluster.post(cluster.goal, "/sim chunks=100 delay_ms=60").await;
    eventually("the run starts", || async {
        (cluster.requests().run(posted.run).await.ok()?.status == RunStatus::Running).then_some(())
    })
    .await;
    doomed.kill.cancel();
    let rescuer = cluster.worker();
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert!(run.attempt > 1, "another has taken it over: {run:?}");
    assert_eq!(cluster.agent_messages(cluster.goal).await.len(), 1);
    cluster.history(cluster.goal).await;
    cluster.events(cluster.goal).await;
    rescuer.drain().await;
}
