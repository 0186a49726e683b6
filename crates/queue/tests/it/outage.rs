//! The worker survives every failure of Redis and handles later hints.

use std::time::Duration;

use houston_queue::{HintHealth, HintSender, Lane, RedisState, depths};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::{Server, eventually};
use crate::worker::{Worker, hint};

struct TestSetup {
    server: Server,
    worker: Worker,
    sender: HintSender,
}

async fn set_up() -> TestSetup {
    let server = Server::start().await;
    let worker = Worker::quick(Some(server.redis()), 4);
    let sender = HintSender::start(Some(server.redis()), &TaskTracker::new(), CancellationToken::new());
    sender.send(Lane::Interactive, hint(1));
    worker.log.wait_ended(1).await;
    TestSetup { server, worker, sender }
}

impl TestSetup {
    /// Sends a hint repeatedly until it is handled, like the sweep.
    async fn handles_hint(&self, n: u128) {
        eventually("a later hint comes", async || {
            self.sender.send(Lane::Interactive, hint(n));
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.worker.log.ended().contains(&hint(n))
        })
        .await;
        assert!(!self.worker.running.is_finished());
        assert!(self.worker.health.is_up());
    }
}

#[tokio::test]
async fn flush_loses_only_the_hints_in_redis() {
    let setup = set_up().await;
    let _: String = setup.server.ask(&["FLUSHALL"]).await;
    setup.handles_hint(2).await;
    setup.worker.end().await;
}

/// A Redis that answers reads and refuses writes is as good as none, and nobody needs to send a hint to find that out.
#[tokio::test]
async fn redis_that_takes_no_writes_counts_as_down_until_it_does() {
    let setup = set_up().await;
    let health = HintHealth { read: setup.worker.health.clone(), write: setup.sender.health.clone() };
    eventually("hints go through Redis", async || health.is_up()).await;
    for (refuse, accept) in [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
        (["REPLICAOF", "127.0.0.1", "1", ""], ["REPLICAOF", "NO", "ONE", ""]),
    ] {
        let words = |command: [&'static str; 4]| command.into_iter().filter(|word| !word.is_empty());
        let _: String = setup.server.ask(&words(refuse).collect::<Vec<_>>()).await;
        eventually("the refusal is noticed", async || !health.is_up()).await;
        assert!(matches!(health.state(), RedisState::Down { .. }));
        let refused = setup.server.redis().server().await.unwrap().refuses;
        assert!(refused.is_some(), "the command that refuses is {refuse:?}");
        let _: String = setup.server.ask(&words(accept).collect::<Vec<_>>()).await;
        eventually("its end is noticed", async || health.is_up()).await;
        assert_eq!(setup.server.redis().server().await.unwrap().refuses, None);
    }
    setup.handles_hint(2).await;
    setup.worker.end().await;
}

#[tokio::test]
async fn worker_survives_a_restart_of_redis() {
    let mut setup = set_up().await;
    setup.server.kill();
    eventually("the outage is noticed", async || {
        matches!(setup.worker.health.state(), RedisState::Down { .. })
    })
    .await;
    // Without Redis the worker gets local hints.
    assert!(setup.worker.local.try_send(Lane::Interactive, hint(2)));
    setup.worker.log.wait_ended(2).await;
    setup.server.restart().await;
    setup.handles_hint(3).await;
    setup.worker.end().await;
}

#[tokio::test]
async fn unnoticed_restart_loses_no_later_hint() {
    let mut setup = set_up().await;
    setup.server.restart().await;
    // One hint only: the sender finds its connection broken and sends it on a new one.
    setup.sender.send(Lane::Interactive, hint(2));
    setup.worker.log.wait_ended(2).await;
    setup.worker.end().await;
}

#[tokio::test]
async fn worker_recovers_from_a_stalled_redis() {
    let setup = set_up().await;
    setup.server.signal("STOP");
    eventually("the stall is noticed", async || !setup.worker.health.is_up()).await;
    assert!(setup.worker.local.try_send(Lane::Interactive, hint(2)));
    setup.worker.log.wait_ended(2).await;
    setup.server.signal("CONT");
    setup.handles_hint(3).await;
    setup.worker.end().await;
}

#[tokio::test]
async fn stop_during_a_stall_does_not_hang() {
    let setup = set_up().await;
    setup.server.signal("STOP");
    setup.worker.end().await;
}

#[tokio::test]
async fn worker_connects_to_a_redis_that_starts_later() {
    let mut server = Server::start().await;
    server.kill();
    let worker = Worker::quick(Some(server.redis()), 4);
    let sender = HintSender::start(Some(server.redis()), &TaskTracker::new(), CancellationToken::new());
    // More hints than the queue holds: the rest is dropped without an error.
    for n in 0..6_000 {
        sender.send(Lane::Background, hint(n));
    }
    assert!(depths(&server.redis()).await.is_err());
    server.restart().await;
    worker.up().await;
    let last = hint(6_000);
    eventually("what waited is sent, and what is sent later", async || {
        sender.send(Lane::Background, last);
        worker.log.ended().contains(&last)
    })
    .await;
    let waited = worker.log.ended().iter().filter(|hint| **hint != last).count();
    assert!((1..6_000).contains(&waited), "{waited}");
    worker.end().await;
}
