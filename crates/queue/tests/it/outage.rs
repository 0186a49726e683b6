//! The worker survives every failure of Redis and takes later hints.

use std::time::Duration;

use houston_queue::{HintSender, Lane, RedisState, depths};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::{Server, eventually};
use crate::worker::{Worker, hint};

struct Rig {
    server: Server,
    worker: Worker,
    sender: HintSender,
}

async fn rig() -> Rig {
    let server = Server::start().await;
    let worker = Worker::quick(Some(server.redis()), 4);
    let sender = HintSender::start(Some(server.redis()), &TaskTracker::new(), CancellationToken::new());
    sender.send(Lane::Interactive, hint(1));
    worker.log.wait_ended(1).await;
    Rig { server, worker, sender }
}

impl Rig {
    /// Sends a hint until it is taken, as the sweep would.
    async fn is_heard(&self, n: u128) {
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
async fn a_flush_costs_nothing_but_the_hints_in_it() {
    let rig = rig().await;
    let _: String = rig.server.ask(&["FLUSHALL"]).await;
    rig.is_heard(2).await;
    rig.worker.end().await;
}

#[tokio::test]
async fn a_restart_is_survived_and_told() {
    let mut rig = rig().await;
    rig.server.kill();
    eventually("the outage is noticed", async || {
        matches!(rig.worker.health.state(), RedisState::Down { .. })
    })
    .await;
    // Without Redis the worker is fed from inside.
    rig.worker.local.try_send(Lane::Interactive, hint(2)).unwrap();
    rig.worker.log.wait_ended(2).await;
    rig.server.restart().await;
    rig.is_heard(3).await;
    rig.worker.end().await;
}

#[tokio::test]
async fn a_restart_that_nobody_noticed_costs_no_hint() {
    let mut rig = rig().await;
    rig.server.restart().await;
    // One hint only: the sender finds its connection dead, and sends again on a new one.
    rig.sender.send(Lane::Interactive, hint(2));
    rig.worker.log.wait_ended(2).await;
    rig.worker.end().await;
}

#[tokio::test]
async fn a_stalled_redis_is_given_up_and_found_again() {
    let rig = rig().await;
    rig.server.signal("STOP");
    eventually("the stall is noticed", async || !rig.worker.health.is_up()).await;
    rig.worker.local.try_send(Lane::Interactive, hint(2)).unwrap();
    rig.worker.log.wait_ended(2).await;
    rig.server.signal("CONT");
    rig.is_heard(3).await;
    rig.worker.end().await;
}

#[tokio::test]
async fn a_stop_during_a_stall_does_not_hang() {
    let rig = rig().await;
    rig.server.signal("STOP");
    rig.worker.end().await;
}

#[tokio::test]
async fn a_redis_that_comes_later_is_found() {
    let mut server = Server::start().await;
    server.kill();
    let worker = Worker::quick(Some(server.redis()), 4);
    let sender = HintSender::start(Some(server.redis()), &TaskTracker::new(), CancellationToken::new());
    // More than may wait: the rest is dropped, and the caller does not notice.
    for n in 0..6_000 {
        sender.send(Lane::Background, hint(n));
    }
    assert!(sender.counts().dropped > 0);
    assert!(depths(&server.redis()).await.is_err());
    server.restart().await;
    worker.up().await;
    eventually("what waited is sent", async || {
        let counts = sender.counts();
        counts.sent + counts.dropped == 6_000 && counts.sent > 0
    })
    .await;
    worker.log.wait_ended(usize::try_from(sender.counts().sent).unwrap()).await;
    worker.end().await;
}
