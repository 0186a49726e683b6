//! The delta bus: within a process, between two processes, and during outages.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::event::{Committed, Delta, Event, Live, LiveItem, Part};
use houston_domain::id::{AgentableId, MessageId, RunId, TenantId};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_queue::{BegunRun, DeltaBus, Received, Subscription};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::server::{PATIENCE, Server, eventually};

const AGENTABLE: AgentableId = AgentableId(Uuid::from_u128(1));

/// A bus with its tasks, standing for one process.
struct Process {
    bus: DeltaBus,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Process {
    async fn start(server: &Server, id: u128) -> Self {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let bus = DeltaBus::start(Some(server.redis()), Uuid::from_u128(id), &tracker, stop.clone());
        eventually("the bus is up", async || bus.health.is_up()).await;
        Self { bus, stop, tracker }
    }

    async fn end(self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

fn delta(offset: u32, text: &str) -> Live {
    let message_id = MessageId(Uuid::from_u128(2));
    Live::Delta(Delta {
        message_id,
        part: Part::Message,
        reasoning_chars: 0,
        offset,
        text: text.into(),
        is_draft: false,
    })
}

fn committed(seq: i64, text: &str) -> Live {
    Live::Committed(vec![thought(seq, text)])
}

fn thought(seq: i64, text: &str) -> Committed {
    Committed {
        seq,
        run_id: RunId(Uuid::from_u128(3)),
        at: chrono::DateTime::UNIX_EPOCH,
        event: Event::Thought { text: text.into(), withdrawn_at: None },
        body: None,
    }
}

/// Waits until items of other processes arrive. On a busy machine that takes longer than the limit of a stream, which then
/// gets a nudge.
async fn ready(subscription: &mut Subscription) {
    while !subscription.ready().await {
        tokio::task::yield_now().await;
    }
    while let Some(received) = subscription.try_recv() {
        assert!(matches!(received, Received::Item(item) if item.live == Live::Nudge));
    }
}

async fn next(subscription: &mut Subscription) -> Received {
    tokio::time::timeout(PATIENCE, subscription.recv()).await.expect("an item comes")
}

async fn item(subscription: &mut Subscription) -> Arc<LiveItem> {
    match next(subscription).await {
        Received::Item(item) => item,
        Received::Lagged => panic!("lagged"),
    }
}

async fn live(subscription: &mut Subscription) -> Live {
    item(subscription).await.live.clone()
}

/// Receives deltas until the text has `length` characters. Returns the text.
async fn text(subscription: &mut Subscription, length: usize) -> String {
    let mut text = String::new();
    while text.chars().count() < length {
        if let Live::Delta(delta) = live(subscription).await {
            assert_eq!(delta.offset as usize, text.chars().count());
            text.push_str(&delta.text);
        }
    }
    text
}

#[tokio::test]
async fn local_items_need_no_redis_and_are_not_copied() {
    let bus = DeltaBus::within_process();
    let (mut one, mut other) = (bus.subscribe(AGENTABLE), bus.subscribe(AGENTABLE));
    let mut stranger = bus.subscribe(AgentableId(Uuid::from_u128(9)));
    bus.publish(AGENTABLE, delta(0, "a"));
    bus.publish(AGENTABLE, Live::Nudge);
    one.ready().await;
    let first = item(&mut one).await;
    assert_eq!(first.live, delta(0, "a"));
    assert!(Arc::ptr_eq(&first, &item(&mut other).await));
    assert_eq!(live(&mut one).await, Live::Nudge);
    assert_eq!((one.try_recv(), stranger.try_recv()), (None, None));
    drop((one, other, stranger));
    assert_eq!(bus.listeners(), 0);
}

#[tokio::test]
async fn processes_receive_each_others_items_but_no_echo() {
    let server = Server::start().await;
    let (here, there) = (Process::start(&server, 1).await, Process::start(&server, 2).await);
    let (mut near, mut far) = (here.bus.subscribe(AGENTABLE), there.bus.subscribe(AGENTABLE));
    ready(&mut near).await;
    ready(&mut far).await;
    let whole: String = (0..2_000u32).map(|i| char::from_u32(0x100 + i % 500).unwrap()).collect();
    let mut near_text = String::new();
    for (i, character) in whole.chars().enumerate() {
        here.bus.publish(AGENTABLE, delta(i.try_into().unwrap(), &character.to_string()));
        // At once, in the publisher's own process.
        let Some(Received::Item(item)) = near.try_recv() else { panic!("not delivered at once") };
        let Live::Delta(delta) = &item.live else { panic!("not a delta") };
        near_text.push_str(&delta.text);
    }
    here.bus.publish(AGENTABLE, committed(1, "done"));
    assert_eq!(near_text, whole);
    assert_eq!(text(&mut far, 2_000).await, whole);
    assert_eq!(live(&mut far).await, committed(1, "done"));
    // The next item is the one of the other process: no echo and no nudge comes before it.
    there.bus.publish(AGENTABLE, committed(2, "heard"));
    assert_eq!(live(&mut near).await, committed(1, "done"));
    assert_eq!(live(&mut near).await, committed(2, "heard"));
    here.end().await;
    there.end().await;
}

#[tokio::test]
async fn subscriber_that_is_not_ready_gets_a_nudge() {
    let server = Server::start().await;
    let process = Process::start(&server, 1).await;
    let mut hasty = process.bus.subscribe(AGENTABLE);
    assert_eq!(live(&mut hasty).await, Live::Nudge);
    let mut later = process.bus.subscribe(AGENTABLE);
    ready(&mut later).await;
    process.bus.publish(AGENTABLE, committed(1, "a"));
    assert_eq!(live(&mut later).await, committed(1, "a"));
    process.end().await;
}

#[tokio::test]
async fn control_items_reach_every_process() {
    let server = Server::start().await;
    let (here, there) = (Process::start(&server, 1).await, Process::start(&server, 2).await);
    let (mut near, mut far) = (here.bus.subscribe_control(), there.bus.subscribe_control());
    ready(&mut near).await;
    ready(&mut far).await;
    let run = RunId(Uuid::from_u128(4));
    for wanted in [Live::TranscriptWanted, Live::CancelRequested(run)] {
        let wanted = LiveItem { agentable: AGENTABLE, live: wanted };
        here.bus.publish_control(wanted.clone());
        assert_eq!(*item(&mut near).await, wanted);
        assert_eq!(*item(&mut far).await, wanted);
    }
    assert_eq!(near.try_recv(), None);
    here.end().await;
    there.end().await;
}

#[tokio::test]
async fn batch_too_long_for_redis_is_sent_as_a_nudge() {
    let server = Server::start().await;
    let (here, there) = (Process::start(&server, 1).await, Process::start(&server, 2).await);
    let (mut near, mut far) = (here.bus.subscribe(AGENTABLE), there.bus.subscribe(AGENTABLE));
    ready(&mut near).await;
    ready(&mut far).await;
    let long = committed(1, &"x".repeat(300 * 1024));
    here.bus.publish(AGENTABLE, long.clone());
    assert_eq!(live(&mut near).await, long);
    assert_eq!(live(&mut far).await, Live::Nudge);
    here.end().await;
    there.end().await;
}

#[tokio::test]
async fn payload_of_a_newer_release_is_a_nudge() {
    let server = Server::start().await;
    let process = Process::start(&server, 1).await;
    let mut subscription = process.bus.subscribe(AGENTABLE);
    ready(&mut subscription).await;
    let channel = format!("test:live:{}", AGENTABLE.0.simple());
    let mut connection =
        redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let mut newer = vec![1];
    newer.extend_from_slice(Uuid::from_u128(2).as_bytes());
    newer.extend_from_slice(AGENTABLE.0.as_bytes());
    newer.extend_from_slice(br#"{"dance":{}}"#);
    for payload in [b"garbage".to_vec(), newer] {
        let heard: u64 =
            redis::cmd("PUBLISH").arg(&channel).arg(payload).query_async(&mut connection).await.unwrap();
        assert_eq!(heard, 1);
    }
    assert_eq!(live(&mut subscription).await, Live::Nudge);
    assert_eq!(subscription.try_recv(), None);
    process.end().await;
}

#[tokio::test]
async fn slow_listener_is_dropped_and_releases_its_items() {
    let bus = DeltaBus::within_process();
    let (mut slow, mut quick) = (bus.subscribe(AGENTABLE), bus.subscribe(AGENTABLE));
    for i in 0..300 {
        bus.publish(AGENTABLE, delta(i, "x"));
        assert!(matches!(quick.try_recv(), Some(Received::Item(_))));
    }
    assert_eq!(next(&mut slow).await, Received::Lagged);
    assert_eq!(next(&mut slow).await, Received::Lagged);
    // By size: three items of half a MiB are too much; a single item may have any size.
    let mut slow = bus.subscribe(AGENTABLE);
    let large = "x".repeat(500 * 1024);
    bus.publish(AGENTABLE, committed(1, &"x".repeat(2 * 1024 * 1024)));
    assert!(matches!(quick.try_recv(), Some(Received::Item(_))));
    assert!(matches!(slow.try_recv(), Some(Received::Item(_))));
    let mut shared = Vec::new();
    for seq in 0..3 {
        bus.publish(AGENTABLE, committed(seq, &large));
        let Some(Received::Item(item)) = quick.try_recv() else { panic!("not delivered") };
        shared.push(item);
    }
    assert_eq!(slow.try_recv(), Some(Received::Lagged));
    for item in shared {
        assert_eq!(Arc::strong_count(&item), 1, "the slow listener released it");
    }
}

#[tokio::test]
async fn reconnect_resubscribes_and_nudges_all() {
    let mut server = Server::start().await;
    let (here, there) = (Process::start(&server, 1).await, Process::start(&server, 2).await);
    let agentables: Vec<_> = (0..600).map(|n| AgentableId(Uuid::from_u128(100 + n))).collect();
    let mut subscriptions: Vec<_> =
        agentables.iter().map(|&agentable| there.bus.subscribe(agentable)).collect();
    for subscription in &mut subscriptions {
        assert_eq!(live(subscription).await, Live::Nudge);
    }
    server.kill();
    eventually("the outage is noticed", async || !there.bus.health.is_up() && !here.bus.health.is_up()).await;
    // Local streams continue; the other process gets a nudge for this event later.
    let mut near = here.bus.subscribe(agentables[0]);
    near.ready().await;
    here.bus.publish(agentables[0], committed(1, "meanwhile"));
    assert_eq!(live(&mut near).await, committed(1, "meanwhile"));
    server.restart().await;
    for subscription in &mut subscriptions {
        assert_eq!(live(subscription).await, Live::Nudge);
    }
    let last = *agentables.last().unwrap();
    eventually("items pass again", async || {
        here.bus.publish(last, committed(2, "again"));
        tokio::time::sleep(Duration::from_millis(20)).await;
        std::iter::from_fn(|| subscriptions[599].try_recv())
            .any(|item| matches!(item, Received::Item(item) if item.live == committed(2, "again")))
    })
    .await;
    here.end().await;
    there.end().await;
}

#[tokio::test]
async fn stall_is_detected_without_traffic() {
    let server = Server::start().await;
    let process = Process::start(&server, 1).await;
    let mut subscription = process.bus.subscribe(AGENTABLE);
    ready(&mut subscription).await;
    server.signal("STOP");
    eventually("the stall is noticed", async || !process.bus.health.is_up()).await;
    server.signal("CONT");
    assert_eq!(live(&mut subscription).await, Live::Nudge);
    process.end().await;
}

#[tokio::test]
async fn idle_channel_is_unsubscribed_after_a_delay() {
    let server = Server::start().await;
    let process = Process::start(&server, 1).await;
    let channel = format!("test:live:{}", AGENTABLE.0.simple());
    let subscribers = async || server.ask::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.1;
    let mut first = process.bus.subscribe(AGENTABLE);
    ready(&mut first).await;
    assert_eq!(subscribers().await, 1);
    drop(first);
    // A new subscriber finds the channel still subscribed and is ready at once.
    let mut second = process.bus.subscribe(AGENTABLE);
    ready(&mut second).await;
    process.bus.publish(AGENTABLE, committed(1, "a"));
    assert_eq!(live(&mut second).await, committed(1, "a"));
    drop(second);
    let dropped = std::time::Instant::now();
    assert!(subscribers().await == 1 || dropped.elapsed() > Duration::from_secs(2));
    eventually("the channel is left", async || subscribers().await == 0).await;
    let mut third = process.bus.subscribe(AGENTABLE);
    ready(&mut third).await;
    assert_eq!(subscribers().await, 1);
    process.end().await;
}

#[tokio::test]
async fn items_published_before_the_stop_are_sent() {
    let server = Server::start().await;
    let (here, there) = (Process::start(&server, 1).await, Process::start(&server, 2).await);
    let mut far = there.bus.subscribe(AGENTABLE);
    ready(&mut far).await;
    for seq in 0..100 {
        here.bus.publish(AGENTABLE, committed(seq, "a"));
    }
    here.end().await;
    for seq in 0..100 {
        assert_eq!(live(&mut far).await, committed(seq, "a"));
    }
    there.end().await;
}

/// The run of `committed`, whose first event is at position 4.
fn begun() -> BegunRun {
    BegunRun {
        tenant: TenantId(Uuid::from_u128(4)),
        kind: "goal".into(),
        run: RunId(Uuid::from_u128(3)),
        first_seq: 4,
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_a_run_that_began_here_are_kept_for_a_while() {
    let bus = DeltaBus::within_process();
    let seqs =
        |after| bus.begun(AGENTABLE, after).map(|(_, events)| events.iter().map(|event| event.seq).collect());
    bus.keep(AGENTABLE, begun());
    bus.publish(AGENTABLE, Live::Committed(vec![thought(4, ""), thought(5, "")]));
    bus.publish(AGENTABLE, delta(0, "text"));
    bus.publish(AGENTABLE, committed(6, ""));
    bus.publish(AGENTABLE, Live::Committed(Vec::new()));
    bus.publish(AgentableId(Uuid::from_u128(9)), Live::Nudge);
    assert_eq!(seqs(None), Some(vec![4, 5, 6]));
    assert_eq!(seqs(Some(3)), Some(vec![4, 5, 6]));
    assert_eq!(seqs(Some(5)), Some(vec![6]));
    assert_eq!(seqs(Some(6)), Some(vec![]));
    // Before the run, and after what is known.
    assert_eq!((seqs(Some(2)), seqs(Some(7))), (None, None));
    assert_eq!(bus.begun(AgentableId(Uuid::from_u128(9)), None), None);
    bus.forget(AGENTABLE);
    assert_eq!(seqs(None), None);
    bus.keep(AGENTABLE, begun());
    assert_eq!(seqs(None), None);
    bus.publish(AGENTABLE, committed(4, ""));
    assert_eq!(seqs(None), Some(vec![4]));
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(seqs(None), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_once_others_may_have_written() {
    let run = RunId(Uuid::from_u128(3));
    let usage = Usage::default();
    let (iteration, message, code, result) = (None, None, None, None);
    let end = Event::RunFinished { status: RunStatus::Completed, iteration, usage, message, code, result };
    let of = |event: Committed| Live::Committed(vec![event]);
    let items = [
        committed(6, "a gap"),
        committed(4, "a repetition"),
        committed(5, &"long ".repeat(4_000)),
        of(Committed { run_id: RunId(Uuid::from_u128(8)), ..thought(5, "of another run") }),
        of(Committed { event: end, ..thought(5, "") }),
        Live::Nudge,
        Live::CancelRequested(run),
    ];
    for item in items {
        let bus = DeltaBus::within_process();
        bus.keep(AGENTABLE, begun());
        bus.publish(AGENTABLE, committed(4, ""));
        assert!(bus.begun(AGENTABLE, None).is_some());
        match item {
            Live::CancelRequested(_) => {
                bus.publish_control(LiveItem { agentable: AGENTABLE, live: item.clone() })
            }
            _ => bus.publish(AGENTABLE, item.clone()),
        }
        assert_eq!(bus.begun(AGENTABLE, None), None, "{item:?}");
        bus.publish(AGENTABLE, committed(5, ""));
        assert_eq!(bus.begun(AGENTABLE, None), None, "{item:?}");
    }
}

#[tokio::test]
async fn items_of_others_end_what_is_kept_even_without_listeners() {
    let server = Server::start().await;
    let (one, two) = (Process::start(&server, 1).await, Process::start(&server, 2).await);
    let others = AgentableId(Uuid::from_u128(9));
    let kept = |agentable| one.bus.begun(agentable, None).is_some();
    // Again on a machine that is so busy that both are too old.
    let mut tries = 0..20;
    while !kept(others) {
        tries.next().expect("only the time ends what is kept");
        let mut listener = one.bus.subscribe(AGENTABLE);
        ready(&mut listener).await;
        // The channel stays subscribed for a while.
        drop(listener);
        for agentable in [others, AGENTABLE] {
            one.bus.keep(agentable, begun());
            one.bus.publish(agentable, committed(4, ""));
        }
        two.bus.publish(AGENTABLE, committed(5, ""));
        eventually("it is forgotten", async || !kept(AGENTABLE)).await;
    }
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn confirmed_subscription_ends_what_is_kept() {
    let server = Server::start().await;
    let one = Process::start(&server, 1).await;
    let others = AgentableId(Uuid::from_u128(9));
    let kept = |agentable| one.bus.begun(agentable, None).is_some();
    // Again on a machine that is so busy that both are too old.
    let mut tries = 0..20;
    while !kept(others) {
        let nth = tries.next().expect("only the time ends what is kept");
        let agentable = AgentableId(Uuid::from_u128(100 + nth));
        for agentable in [others, agentable] {
            one.bus.keep(agentable, begun());
            one.bus.publish(agentable, committed(4, ""));
        }
        let mut listener = one.bus.subscribe(agentable);
        assert_eq!(item(&mut listener).await.live, Live::Nudge);
        assert!(!kept(agentable));
    }
    one.end().await;
}
