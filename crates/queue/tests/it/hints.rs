//! Hints: from the sender through the lanes to the handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use chrono::TimeDelta;
use houston_domain::clock::{Clock, ManualClock, SystemClock};
use houston_queue::{Hint, HintBackend, HintSender, HintSettings, Lane, Redis, Slots, depths, run_worker};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::server::{Server, eventually};
use crate::worker::{Worker, hint, unreserved};

fn sender(redis: Redis) -> HintSender {
    HintSender::start(Some(redis), &TaskTracker::new(), CancellationToken::new())
}

async fn wait_for_depths(redis: &Redis, expected: [u64; 3]) {
    eventually(&format!("{expected:?} hints wait"), async || {
        depths(redis).await.is_ok_and(|lanes| lanes.map(|(_, count)| count) == expected)
    })
    .await;
}

#[tokio::test]
async fn hints_are_delivered_once_by_priority_then_first_sent() {
    let server = Server::start().await;
    let clock = ManualClock::at(SystemClock.now());
    let redis = server.redis_at(Arc::new(clock.clone()));
    let sender = sender(redis.clone());
    // Sending hint 5 again does not change its position.
    for (lane, n) in [
        (Lane::Maintenance, 1),
        (Lane::Background, 2),
        (Lane::Interactive, 5),
        (Lane::Interactive, 4),
        (Lane::Interactive, 5),
        (Lane::Background, 3),
    ] {
        sender.send(lane, hint(n));
        clock.advance(TimeDelta::milliseconds(1));
    }
    wait_for_depths(&redis, [2, 2, 1]).await;
    let worker = Worker::quick(Some(redis.clone()), 1);
    worker.log.wait_ended(5).await;
    assert_eq!(worker.log.begun(), [5, 4, 2, 3, 1].map(hint));
    wait_for_depths(&redis, [0, 0, 0]).await;
    worker.end().await;
}

#[tokio::test]
async fn two_workers_share_hints_without_duplicates() {
    let server = Server::start().await;
    let redis = server.redis();
    let workers = [Worker::quick(Some(redis.clone()), 8), Worker::quick(Some(redis.clone()), 8)];
    let sender = sender(redis.clone());
    for n in 0..500 {
        sender.send(Lane::Background, hint(n));
    }
    eventually("all are handled", async || {
        workers.iter().map(|worker| worker.log.ended().len()).sum::<usize>() >= 500
    })
    .await;
    let mut all: Vec<Hint> = workers.iter().flat_map(|worker| worker.log.ended()).collect();
    all.sort_by_key(|hint| hint.id);
    assert_eq!(all, (0..500).map(hint).collect::<Vec<_>>());
    for worker in workers {
        worker.end().await;
    }
}

#[tokio::test]
async fn invalid_lane_member_is_dropped() {
    let server = Server::start().await;
    let newer = r#"{"v":2,"kind":"run","id":"00000000-0000-0000-0000-000000000001"}"#;
    let unknown = r#"{"v":1,"kind":"dance","id":"00000000-0000-0000-0000-000000000001"}"#;
    for (score, member) in [("1", "garbage"), ("2", newer), ("3", unknown)] {
        let _: u64 = server.ask(&["ZADD", "test:hints:interactive", score, member]).await;
    }
    let worker = Worker::quick(Some(server.redis()), 2);
    sender(server.redis()).send(Lane::Interactive, hint(7));
    worker.log.wait_ended(1).await;
    assert_eq!(worker.log.ended(), [hint(7)]);
    wait_for_depths(&server.redis(), [0, 0, 0]).await;
    worker.end().await;
}

#[tokio::test]
async fn handlers_never_exceed_the_slots() {
    let server = Server::start().await;
    let redis = server.redis();
    let worker = Worker::start(Some(redis.clone()), 3, 0);
    let sender = sender(redis.clone());
    for n in 0..10 {
        sender.send(Lane::Interactive, hint(n));
    }
    worker.log.wait_begun(3).await;
    wait_for_depths(&redis, [7, 0, 0]).await;
    assert_eq!((worker.slots.in_use().0, worker.log.begun().len()), (3, 3));
    worker.log.leave.add_permits(1);
    worker.log.wait_begun(4).await;
    wait_for_depths(&redis, [6, 0, 0]).await;
    assert_eq!(worker.log.begun().len(), 4);
    worker.log.leave.add_permits(9);
    worker.log.wait_ended(10).await;
    eventually("all slots are free", async || worker.slots.in_use().0 == 0).await;
    worker.end().await;
}

#[tokio::test]
async fn panicking_handler_frees_its_slot() {
    let server = Server::start().await;
    let tracker = TaskTracker::new();
    let slots = Slots::from(unreserved(1, 1));
    let backend = HintBackend::start(Some(server.redis()), slots.clone(), &tracker);
    let stop = CancellationToken::new();
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let handler = move |hint: Hint| -> futures_util::future::BoxFuture<'static, ()> {
        let count = Arc::clone(&count);
        assert!(hint.id.as_u128() != 1, "before the first await");
        Box::pin(async move {
            tokio::task::yield_now().await;
            assert!(hint.id.as_u128() != 2, "after it");
            count.fetch_add(1, SeqCst);
        })
    };
    let running = tracker.spawn(run_worker("test", backend, handler, stop.clone()));
    let sender = sender(server.redis());
    for n in [1, 2, 3] {
        sender.send(Lane::Interactive, hint(n));
    }
    eventually("the third is handled", async || handled.load(SeqCst) == 1).await;
    eventually("the slot is free", async || slots.in_use().0 == 0).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn stop_takes_no_hints_and_waits_for_handlers() {
    let server = Server::start().await;
    let redis = server.redis();
    let worker = Worker::start(Some(redis.clone()), 4, 0);
    let sender = sender(redis.clone());
    sender.send(Lane::Interactive, hint(1));
    worker.log.wait_begun(1).await;
    worker.stop.cancel();
    eventually("the intake is shut", async || !worker.intake.is_open()).await;
    sender.send(Lane::Interactive, hint(2));
    wait_for_depths(&redis, [1, 0, 0]).await;
    assert!(!worker.running.is_finished());
    assert!(!worker.local.try_send(Lane::Interactive, hint(3)));
    worker.log.leave.add_permits(1);
    let log = worker.log.clone();
    worker.end().await;
    assert_eq!(log.ended(), [hint(1)]);
    wait_for_depths(&redis, [1, 0, 0]).await;
}

#[tokio::test]
async fn stop_puts_back_popped_hints() {
    let server = Server::start().await;
    let redis = server.redis();
    let worker = Worker::quick(Some(redis.clone()), 4);
    worker.up().await;
    worker.stop.cancel();
    eventually("the intake is shut", async || !worker.intake.is_open()).await;
    // The blocking pop may still be pending, so that Redis delivers this hint to it.
    sender(redis.clone()).send(Lane::Interactive, hint(1));
    let log = worker.log.clone();
    worker.end().await;
    wait_for_depths(&redis, [1, 0, 0]).await;
    assert_eq!(log.begun(), []);
}

#[tokio::test]
async fn hints_of_a_paused_lane_wait_and_others_do_not() {
    let server = Server::start().await;
    let redis = server.redis();
    let worker = Worker::quick(Some(redis.clone()), 4);
    worker.up().await;
    worker.intake.pause_lanes(&[Lane::Interactive]);
    let sender = sender(redis.clone());
    sender.send(Lane::Interactive, hint(1));
    sender.send(Lane::Background, hint(2));
    worker.log.wait_ended(1).await;
    assert!(!worker.local.try_send(Lane::Interactive, hint(3)));
    assert!(worker.local.try_send(Lane::Background, hint(4)));
    worker.log.wait_ended(2).await;
    wait_for_depths(&redis, [1, 0, 0]).await;
    assert_eq!(worker.log.begun(), [hint(2), hint(4)]);
    worker.intake.pause_lanes(&[]);
    worker.log.wait_ended(3).await;
    worker.end().await;
}

#[tokio::test]
async fn local_hint_that_waits_is_not_taken_of_a_paused_lane() {
    let worker = Worker::start(None, 1, 0);
    assert!(worker.local.try_send(Lane::Interactive, hint(1)));
    worker.log.wait_begun(1).await;
    assert!(worker.local.try_send(Lane::Interactive, hint(2)));
    // It begins to wait for the slot.
    tokio::task::yield_now().await;
    worker.intake.pause_lanes(&[Lane::Interactive]);
    worker.log.leave.add_permits(2);
    eventually("it is left to the sweep", async || worker.local.waiting() == 0).await;
    worker.intake.pause_lanes(&[]);
    assert!(worker.local.try_send(Lane::Interactive, hint(3)));
    worker.log.wait_ended(2).await;
    assert_eq!(worker.log.begun(), [hint(1), hint(3)]);
    worker.end().await;
}

#[tokio::test]
async fn local_hints_need_no_redis_and_are_queued_once() {
    let worker = Worker::start(None, 1, 0);
    assert!(worker.local.try_send(Lane::Interactive, hint(1)));
    worker.log.wait_begun(1).await;
    for _ in 0..3 {
        for n in 2..=1_025 {
            assert!(worker.local.try_send(Lane::Interactive, hint(n)));
        }
    }
    assert!(!worker.local.try_send(Lane::Interactive, hint(5_000)));
    assert_eq!(worker.local.waiting(), 1_024);
    worker.log.leave.add_permits(2_000);
    worker.log.wait_ended(1_025).await;
    assert_eq!(worker.log.ended(), (1..=1_025).map(hint).collect::<Vec<_>>());
    worker.end().await;
}

#[tokio::test]
async fn local_hint_does_not_wait_for_a_blocked_pop() {
    let server = Server::start().await;
    let redis = server.redis();
    let worker = Worker::start(Some(redis.clone()), 1, 0);
    worker.up().await;
    // Takes the slot of the pending pop, so the hint it returns must be put back.
    assert!(worker.local.try_send(Lane::Interactive, hint(1)));
    worker.log.wait_begun(1).await;
    sender(redis.clone()).send(Lane::Background, hint(2));
    wait_for_depths(&redis, [0, 1, 0]).await;
    worker.log.leave.add_permits(2);
    worker.log.wait_ended(2).await;
    assert_eq!(worker.log.ended(), [hint(1), hint(2)]);
    worker.end().await;
}

#[tokio::test]
async fn hints_sent_before_the_stop_are_written() {
    let server = Server::start().await;
    let redis = server.redis();
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let sender = HintSender::start(Some(redis.clone()), &tracker, stop.clone());
    for n in 0..1_500 {
        sender.send(Lane::Background, hint(n));
    }
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    wait_for_depths(&redis, [0, 1_500, 0]).await;
}

const RESERVED: HintSettings =
    HintSettings { max_in_flight: 4, background: 2, maintenance: 1, max_batch: 64 };

#[tokio::test]
async fn interactive_hint_does_not_wait_for_background_runs() {
    let server = Server::start().await;
    let redis = server.redis();
    let sender = sender(redis.clone());
    for n in 0..3 {
        sender.send(Lane::Maintenance, hint(n));
    }
    wait_for_depths(&redis, [0, 0, 3]).await;
    let worker = Worker::start_with(Some(redis.clone()), RESERVED, 0);
    worker.log.wait_begun(1).await;
    wait_for_depths(&redis, [0, 0, 2]).await;
    for n in 10..15 {
        sender.send(Lane::Background, hint(n));
    }
    worker.log.wait_begun(2).await;
    wait_for_depths(&redis, [0, 4, 2]).await;
    assert_eq!(worker.log.begun().len(), 2, "one maintenance and one background run use half of the slots");
    for n in 20..23 {
        sender.send(Lane::Interactive, hint(n));
    }
    worker.log.wait_begun(4).await;
    assert_eq!(
        worker.log.begun()[2..],
        [hint(20), hint(21)],
        "the other half is reserved for interactive hints"
    );
    wait_for_depths(&redis, [1, 4, 2]).await;
    worker.log.leave.add_permits(100);
    worker.log.wait_ended(11).await;
    wait_for_depths(&redis, [0, 0, 0]).await;
    worker.end().await;
}

#[tokio::test]
async fn local_interactive_hint_does_not_wait_for_background_runs() {
    let worker = Worker::start_with(None, RESERVED, 0);
    for n in 0..5 {
        assert!(worker.local.try_send(Lane::Background, hint(n)));
    }
    worker.log.wait_begun(2).await;
    assert!(worker.local.try_send(Lane::Maintenance, hint(10)));
    assert!(worker.local.try_send(Lane::Interactive, hint(20)));
    worker.log.wait_begun(3).await;
    assert_eq!(worker.log.begun()[2], hint(20));
    assert_eq!((worker.log.begun().len(), worker.local.waiting()), (3, 4));
    worker.log.leave.add_permits(100);
    worker.log.wait_ended(7).await;
    worker.end().await;
}

#[tokio::test]
async fn full_lane_keeps_the_oldest_hints() {
    let server = Server::start().await;
    let clock = ManualClock::at(SystemClock.now());
    let redis = server.redis_at(Arc::new(clock.clone()));
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let sender = HintSender::start(Some(redis.clone()), &tracker, stop.clone());
    let lane = "test:hints:background";
    let fill = "for n = 1, 99997 do redis.call('ZADD', KEYS[1], n, n) end";
    server.ask::<()>(&["EVAL", fill, "1", lane]).await;
    for n in 0..5 {
        sender.send(Lane::Background, hint(n));
        clock.advance(TimeDelta::milliseconds(1));
    }
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    wait_for_depths(&redis, [0, 100_000, 0]).await;
    let newest: Vec<String> = server.ask(&["ZRANGE", lane, "-3", "-1"]).await;
    assert_eq!(newest, [0, 1, 2].map(|n| serde_json::to_string(&hint(n)).unwrap()));
}
