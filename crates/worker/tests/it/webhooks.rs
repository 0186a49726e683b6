//! Webhooks: events reach a receiver in order and completely, whatever it does.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use houston_domain::clock::{Clock as _, ManualClock, SystemClock};
use houston_domain::id::{AgentableId, Ids, WebhookId};
use houston_domain::sealed::{Purpose, SecretKeys};
use houston_domain::webhook::Delivery;
use houston_store::message::NewPost;
use houston_store::webhook::{NewWebhook, UpdateWebhook};
use houston_web::Sinks;
use houston_web::webhook::Signer;
use houston_worker::{Webhooks, WebhooksConfig};
use secrecy::SecretString;

use crate::cluster::{TestCluster, eventually};
use crate::sink::{Does, Received, Sink};

/// 32 bytes, in base64.
pub(crate) const SECRETS_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The shipped settings, which look more often, and these hosts.
pub(crate) fn settings(hosts: &[String]) -> Webhooks {
    let shipped = include_str!("../../../../jobs/webhooks.toml");
    let config: WebhooksConfig = toml::from_str(shipped).unwrap();
    let config = WebhooksConfig { poll_ms: 50, idle_s: 1, hosts: hosts.to_vec(), ..config };
    let sinks = Arc::new(Sinks::new(hosts, Duration::from_secs(60)));
    Webhooks { config, sinks, keys: Some(SecretKeys::parse(SECRETS_KEY).unwrap()), copies: None }
}

/// A cluster whose workers have a clock that the test moves, and these receivers.
pub(crate) async fn cluster(sinks: usize) -> (TestCluster, ManualClock, Vec<Sink>) {
    let mut cluster = TestCluster::start().await;
    let clock = ManualClock::at(SystemClock.now());
    cluster.worker_ids = Arc::new(Ids::new(Arc::new(clock.clone())));
    let mut all = Vec::new();
    for _ in 0..sinks {
        all.push(Sink::start(&cluster.tracker, Does::Answer(204)).await);
    }
    let urls: Vec<String> = all.iter().map(|sink| sink.url.clone()).collect();
    cluster.webhooks = settings(&urls);
    (cluster, clock, all)
}

async fn subscribe(cluster: &TestCluster, url: &str, topics: &[&str]) -> WebhookId {
    let id: WebhookId = cluster.ids.next();
    let what = id.to_string();
    let purpose = Purpose { tenant: cluster.tenant, what: &what };
    let sealed = SecretKeys::parse(SECRETS_KEY).unwrap().seal(purpose, [7; 12], SECRET).unwrap();
    let topics: Vec<String> = topics.iter().map(|topic| (*topic).to_owned()).collect();
    let new = NewWebhook {
        id,
        url: &format!("{url}/hook"),
        description: "",
        topics: &topics,
        user: None,
        kind: None,
        agentable: None,
        sealed: &sealed,
    };
    cluster.requests().create_webhook(&new).await.unwrap();
    id
}

pub(crate) async fn deliveries(cluster: &TestCluster, webhook: WebhookId, state: &str) -> Vec<Delivery> {
    cluster.requests().deliveries(webhook, Some(state), None, 1000).await.unwrap()
}

/// The positions of all events of a goal.
async fn positions(cluster: &TestCluster, goal: AgentableId) -> Vec<i64> {
    cluster.events(goal).await.iter().map(|event| event.seq).collect()
}

/// Waits until the receiver has accepted all events of the goal, and checks their order.
async fn all_accepted(cluster: &TestCluster, sink: &Sink, goal: AgentableId) {
    let expected = positions(cluster, goal).await;
    eventually("all events are accepted", || async {
        let mut accepted = sink.accepted(goal);
        // One may come twice, but not after a later one.
        accepted.dedup();
        (accepted.len() >= expected.len()).then_some(accepted)
    })
    .await;
    let mut accepted = sink.accepted(goal);
    accepted.dedup();
    assert_eq!(accepted, expected);
}

/// Waits until the next delivery of each of two goals was attempted this often. What became of an attempt is stored then, so
/// that the clock may move.
async fn both_tried(cluster: &TestCluster, webhook: WebhookId, attempts: i32) {
    eventually("both goals were tried", || async {
        let tried = deliveries(cluster, webhook, "pending").await;
        (tried.iter().filter(|one| one.attempts >= attempts).count() == 2).then_some(())
    })
    .await;
}

fn verify(received: &Received, clock: &ManualClock) {
    let secret = SecretString::from(SECRET);
    let headers = received.headers.iter().filter(|(name, _)| name.starts_with("webhook-"));
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let now = u64::try_from(clock.now().timestamp()).unwrap();
    let signed_at: u64 = received.headers["webhook-timestamp"].parse().unwrap();
    assert!(signed_at <= now);
    let signer = Signer::new([&secret]).unwrap();
    assert_eq!(signer.verify(&headers.collect(), &received.body, signed_at), Ok(()));
    assert_eq!(received.event()["id"], received.id(), "the id of the event");
    assert_eq!(received.headers["content-type"], "application/cloudevents+json");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_a_part_of_the_trace_of_their_run() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (cluster, _, sinks) = cluster(1).await;
    let (sink, other) = (&sinks[0], cluster.new_goal().await);
    subscribe(&cluster, &sink.url, &["**"]).await;
    let _worker = cluster.worker();
    let mut post = NewPost::new(cluster.ids.next(), cluster.ids.next(), "hello", serde_json::json!({}));
    post.traceparent = Some(TRACE.to_owned());
    cluster.requests().post_message(cluster.goal, &post, None).await.unwrap();
    cluster.send_hint(cluster.goal);
    cluster.wait_for_end(post.run).await;
    let untraced = cluster.post(other, "hello").await;
    cluster.wait_for_end(untraced.run).await;
    for (goal, expected) in [(cluster.goal, Some(TRACE)), (other, None)] {
        all_accepted(&cluster, sink, goal).await;
        let id = goal.public_id("goal");
        for received in
            sink.received().iter().filter(|one| one.event()["data"]["agentable_id"] == id.as_str())
        {
            assert_eq!(received.headers.get("traceparent").map(String::as_str), expected, "{received:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receiver_that_was_away_gets_everything_in_order() {
    let (cluster, clock, sinks) = cluster(1).await;
    let (sink, other) = (&sinks[0], cluster.new_goal().await);
    sink.now(Does::Answer(503));
    let webhook = subscribe(&cluster, &sink.url, &["**"]).await;
    let worker = cluster.worker();
    for goal in [cluster.goal, other] {
        let posted = cluster.post(goal, "Please create a note: buy milk").await;
        cluster.wait_for_end(posted.run).await;
    }
    both_tried(&cluster, webhook, 1).await;
    // An hour: the sixth attempt is followed by a wait of more than 20 minutes.
    for attempt in 2..=6 {
        clock.advance(TimeDelta::minutes(12));
        both_tried(&cluster, webhook, attempt).await;
    }
    assert!(sink.accepted(cluster.goal).is_empty());
    let firsts: std::collections::BTreeSet<String> =
        sink.received().iter().map(|received| received.id().to_owned()).collect();
    assert_eq!(firsts.len(), 2, "a failed delivery holds back the later ones of its agentable");

    sink.now(Does::Answer(204));
    clock.advance(TimeDelta::hours(3));
    for goal in [cluster.goal, other] {
        all_accepted(&cluster, sink, goal).await;
    }
    sink.received().iter().for_each(|received| verify(received, &clock));
    let waiting = || async { deliveries(&cluster, webhook, "pending").await.is_empty().then_some(()) };
    eventually("all are settled", waiting).await;
    assert!(deliveries(&cluster, webhook, "dead").await.is_empty());
    let open = cluster.servers.sql("select count(*) from houston.open_deliveries").unwrap();
    assert_eq!(open.trim(), "0");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_receiver_does_not_hold_others_back() {
    let (mut cluster, _, sinks) = cluster(2).await;
    cluster.webhooks.config.per_webhook = 2;
    sinks[0].now(Does::Hang);
    subscribe(&cluster, &sinks[0].url, &["**"]).await;
    subscribe(&cluster, &sinks[1].url, &["run.*"]).await;
    let worker = cluster.worker();
    for _ in 0..5 {
        let goal = cluster.new_goal().await;
        let posted = cluster.post(goal, "hello").await;
        cluster.wait_for_end(posted.run).await;
        let finished = || async {
            let runs = sinks[1].received();
            let is_end = |one: &Received| {
                let event = one.event();
                event["type"] == "run.finished" && event["data"]["run_id"] == posted.run.to_string()
            };
            runs.iter().any(is_end).then_some(())
        };
        eventually("the other receiver has it", finished).await;
    }
    assert!(sinks[1].received().iter().all(|one| one.event()["type"].as_str().unwrap().starts_with("run.")));
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn address_that_is_gone_is_switched_off() {
    let (cluster, _, sinks) = cluster(1).await;
    let sink = &sinks[0];
    sink.now(Does::Answer(410));
    let webhook = subscribe(&cluster, &sink.url, &["message.*"]).await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "hello").await;
    cluster.wait_for_end(posted.run).await;
    let off = eventually("it is switched off", || async {
        let webhook = cluster.requests().webhook(webhook).await.unwrap();
        (!webhook.enabled).then_some(webhook)
    })
    .await;
    assert_eq!(off.disabled_because.as_deref(), Some("gone"));
    let dead = deliveries(&cluster, webhook, "dead").await;
    assert_eq!((dead.len(), dead[0].status), (1, Some(410)));

    // Switched on again, it gets what waited, and with a redelivery what was given up.
    sink.now(Does::Answer(204));
    let change = UpdateWebhook { enabled: Some(true), ..UpdateWebhook::default() };
    let now = cluster.worker_ids.clock().now();
    cluster.requests().change_webhook(webhook, &change, now).await.unwrap();
    cluster.requests().redeliver(webhook, dead[0].id, now).await.unwrap();
    // The answer of the agent is one of them, unless the webhook was already off when it came.
    eventually("everything has arrived", || async {
        let is_left = async |state: &str| !deliveries(&cluster, webhook, state).await.is_empty();
        (is_left("delivered").await && !is_left("pending").await && !is_left("dead").await).then_some(())
    })
    .await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_of_a_killed_worker_is_sent_again() {
    let (cluster, clock, sinks) = cluster(1).await;
    let sink = &sinks[0];
    sink.now(Does::Hang);
    let webhook = subscribe(&cluster, &sink.url, &["message.posted"]).await;
    let first = cluster.worker();
    let posted = cluster.post(cluster.goal, "hello").await;
    cluster.wait_for_end(posted.run).await;
    eventually("it is being sent", || async { (!sink.received().is_empty()).then_some(()) }).await;
    first.kill.cancel();
    first.running.ended().await.unwrap();
    sink.now(Does::Answer(204));
    let second = cluster.worker();
    clock.advance(TimeDelta::seconds(61));
    eventually("it is delivered", || async {
        (deliveries(&cluster, webhook, "delivered").await.len() == 1).then_some(())
    })
    .await;
    let ids: std::collections::BTreeSet<String> =
        sink.received().iter().map(|received| received.id().to_owned()).collect();
    assert_eq!(ids.len(), 1, "the same id each time");
    assert!(sink.received().len() >= 2);
    second.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_this_machine_are_refused_unless_listed() {
    let (mut cluster, _, sinks) = cluster(1).await;
    cluster.webhooks = settings(&[]);
    let webhook = subscribe(&cluster, &sinks[0].url, &["**"]).await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "hello").await;
    cluster.wait_for_end(posted.run).await;
    let tried = eventually("it was tried", || async {
        let waiting = deliveries(&cluster, webhook, "pending").await;
        waiting.into_iter().find(|delivery| delivery.attempts > 0)
    })
    .await;
    assert!(tried.error.unwrap().contains("the address"), "it says why");
    assert!(sinks[0].received().is_empty());
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_delivers_what_was_before_the_webhook() {
    let (cluster, clock, sinks) = cluster(1).await;
    let (sink, worker, before) = (&sinks[0], cluster.worker(), clock.now() - TimeDelta::hours(1));
    let goals = [cluster.goal, cluster.new_goal().await];
    for goal in goals {
        let posted = cluster.post(goal, "hello").await;
        cluster.wait_for_end(posted.run).await;
    }
    let webhook = subscribe(&cluster, &sink.url, &["**"]).await;
    for _ in 0..2 {
        let seen = sink.received().len();
        let until = SystemClock.now() + TimeDelta::minutes(1);
        cluster.requests().request_replay(webhook, before, until).await.unwrap();
        let expected = positions(&cluster, goals[0]).await.len() + positions(&cluster, goals[1]).await.len();
        eventually("all are delivered again", || async {
            (sink.received().len() >= seen + expected).then_some(())
        })
        .await;
        assert_eq!(sink.received().len(), seen + expected);
    }
    worker.drain().await;
}

/// With one connection for each purpose: what is sent holds none.
#[tokio::test(flavor = "multi_thread")]
async fn slow_receivers_hold_no_connection() {
    let (cluster, _, sinks) = cluster(1).await;
    let sink = &sinks[0];
    sink.now(Does::Hang);
    let mut webhooks = Vec::new();
    for _ in 0..20 {
        webhooks.push(subscribe(&cluster, &sink.url, &["**"]).await);
    }
    let _worker = cluster.worker();
    let first = cluster.post(cluster.goal, "hello").await;
    eventually("as many as may be are being sent", || async { (sink.received().len() >= 16).then_some(()) })
        .await;
    for webhook in webhooks {
        cluster.requests().webhook(webhook).await.unwrap();
    }
    cluster.wait_for_end(first.run).await;
    let second = cluster.post(cluster.goal, "again").await;
    cluster.wait_for_end(second.run).await;
    assert_eq!(sink.received().len(), 16, "a tenant has no more at once");
}
