//! Push notifications of A2A: the client of a task gets its updates in order and completely, and then nothing is left.

use chrono::TimeDelta;
use houston_domain::clock::ManualClock;
use houston_domain::id::WebhookId;
use houston_domain::sealed::{Purpose, SecretKeys};
use houston_protocol::a2a::PushSecrets;
use houston_store::message::Posted;
use houston_store::task_push::{NewTaskPush, StoredPush};
use serde_json::Value;

use crate::cluster::{TestCluster, eventually};
use crate::sink::{Does, Received, Sink};
use crate::webhooks::{SECRETS_KEY, cluster, deliveries};

/// Sends the updates of the message's task to the receiver.
async fn follow(cluster: &TestCluster, posted: &Posted, sink: &Sink, after: Option<i64>) -> StoredPush {
    let push_id = WebhookId(posted.run.0).to_string();
    let secrets =
        PushSecrets { token: Some("t0ken".to_owned()), authorization: Some("Bearer abc".to_owned()) };
    let what = PushSecrets::purpose(posted.run, &push_id);
    let purpose = Purpose { tenant: cluster.tenant, what: &what };
    let text = serde_json::to_string(&secrets).unwrap();
    let sealed = SecretKeys::parse(SECRETS_KEY).unwrap().seal(purpose, [7; 12], &text).unwrap();
    let new = NewTaskPush {
        id: WebhookId(posted.run.0),
        run: posted.run,
        push_id: &push_id,
        context: "trip",
        url: &format!("{}/a2a", sink.url),
        sealed: &sealed,
        after,
    };
    cluster.requests().put_task_push(&cluster.worker_ids, &new).await.unwrap()
}

/// Waits until nothing of the configuration is left. On a busy machine a delivery may take longer than its time-out: then it
/// is attempted again, some time later.
async fn gone(cluster: &TestCluster, clock: &ManualClock) {
    eventually("the configuration is deleted", || async {
        clock.advance(TimeDelta::milliseconds(20));
        let left =
            "select (select count(*) from houston.webhooks) + (select count(*) from houston.deliveries)";
        (cluster.servers.sql(left).unwrap().trim() == "0").then_some(())
    })
    .await;
}

fn state(update: &Value) -> &str {
    update["statusUpdate"]["status"]["state"].as_str().unwrap_or_default()
}

fn accepted(sink: &Sink) -> Vec<Received> {
    sink.received().into_iter().filter(|one| one.answered == Does::Answer(204)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_come_in_order_although_the_receiver_was_away() {
    let (cluster, clock, sinks) = cluster(1).await;
    let sink = &sinks[0];
    sink.now(Does::Answer(503));
    let posted = cluster.post(cluster.goal, "hello").await;
    follow(&cluster, &posted, sink, None).await;
    let worker = cluster.worker();
    cluster.wait_for_end(posted.run).await;
    let webhook = WebhookId(posted.run.0);
    eventually("it was tried", || async {
        let pending = deliveries(&cluster, webhook, "pending").await;
        pending.iter().any(|one| one.attempts > 0).then_some(())
    })
    .await;
    sink.now(Does::Answer(204));
    clock.advance(TimeDelta::minutes(1));
    gone(&cluster, &clock).await;

    let received = accepted(sink);
    let updates: Vec<Value> = received.iter().map(Received::event).collect();
    assert_eq!(state(&updates[0]), "TASK_STATE_WORKING", "{updates:?}");
    assert_eq!(state(updates.last().unwrap()), "TASK_STATE_COMPLETED", "{updates:?}");
    let artifact = &updates[updates.len() - 2]["artifactUpdate"];
    assert!(
        artifact["artifact"]["parts"][0]["text"].as_str().is_some_and(|text| !text.is_empty()),
        "{artifact}"
    );
    for (update, Received { headers, .. }) in updates.iter().zip(&received) {
        let update = update.as_object().unwrap().values().next().unwrap();
        assert_eq!(
            (&update["taskId"], &update["contextId"]),
            (&posted.run.to_string().into(), &"trip".into())
        );
        assert_eq!(headers["x-a2a-notification-token"], "t0ken");
        assert_eq!(
            (&*headers["authorization"], &*headers["content-type"]),
            ("Bearer abc", "application/a2a+json")
        );
    }

    // Later runs of the thread are other tasks.
    let count = sink.received().len();
    let next = cluster.post(cluster.goal, "hello").await;
    cluster.wait_for_end(next.run).await;
    assert_eq!(follow(&cluster, &posted, sink, None).await, StoredPush::RunIsOver);
    assert_eq!(sink.received().len(), count);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_before_the_configuration_is_sent_too() {
    let (cluster, clock, sinks) = cluster(1).await;
    let worker = cluster.worker();
    let posted = cluster.post(cluster.goal, "hello").await;
    cluster.wait_for_end(posted.run).await;
    // As when the process that posted the message has died before it stored the configuration.
    follow(&cluster, &posted, &sinks[0], Some(posted.run_seq - 1)).await;
    gone(&cluster, &clock).await;
    let updates: Vec<Value> = accepted(&sinks[0]).iter().map(Received::event).collect();
    assert_eq!(state(&updates[0]), "TASK_STATE_WORKING", "{updates:?}");
    assert_eq!(state(updates.last().unwrap()), "TASK_STATE_COMPLETED", "{updates:?}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receiver_that_is_gone_gets_nothing_more() {
    let (cluster, clock, sinks) = cluster(1).await;
    sinks[0].now(Does::Answer(410));
    let posted = cluster.post(cluster.goal, "hello").await;
    follow(&cluster, &posted, &sinks[0], None).await;
    let worker = cluster.worker();
    gone(&cluster, &clock).await;
    let count = sinks[0].received().len();
    assert!(count > 0);
    cluster.wait_for_end(posted.run).await;
    assert_eq!(sinks[0].received().len(), count);
    worker.drain().await;
}
