use futures_util::future::join_all;
use houston_domain::event::Live;
use houston_domain::run::RunStatus;
use houston_queue::{Lane, Received, depths};
use serde_json::json;

use crate::http::PATIENCE;
use crate::test_api::TestApi;
use crate::worker::Worker;

#[tokio::test]
async fn posted_message_is_stored_published_and_hinted() {
    let api = TestApi::start().await;
    let mut bus = api.state.bus.subscribe(api.agentable());
    bus.ready().await;
    let answer =
        api.post(&api.path("/messages"), json!({"content": "héllo", "metadata": {"b": 1, "a": [2]}})).await;
    assert_eq!(answer.status, 202);
    let message = answer.json();
    assert_eq!(answer.header("location"), format!("/v1/messages/{}", message["id"].as_str().unwrap()));
    assert_eq!(message["goal_id"], api.goal.as_str());
    assert_eq!((&message["status"], &message["source"]), (&json!("pending"), &json!("user")));
    assert_eq!(message["metadata"], json!({"b": 1, "a": [2]}));
    assert_eq!(message["events_url"], api.path("/events?after=0"));

    let Received::Item(item) = bus.recv().await else { panic!("lagged") };
    let Live::Committed(published) = &item.live else { panic!("{item:?}") };
    let stored = api.store.tenant(api.tenant).events_after(api.agentable(), 0, 10).await.unwrap();
    assert_eq!(published, &stored, "published events equal those in Postgres");

    let hinted = async {
        loop {
            let depths = depths(&api.redis).await.unwrap();
            if depths.contains(&(Lane::Interactive, 1)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, hinted).await.unwrap();

    // One more joins the run; its stream begins with the run, too.
    let second = api.post_message("and another").await;
    assert_eq!((&second["run_id"], &second["events_url"]), (&message["run_id"], &message["events_url"]));
    let stored = api.get(answer.header("location")).await.ok();
    let mut expected = message.clone();
    expected.as_object_mut().unwrap().remove("events_url");
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn message_status_follows_its_run() {
    let api = TestApi::start().await;
    let message = api.post_message("hello").await;
    let path = format!("/v1/messages/{}", message["id"].as_str().unwrap());
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    assert_eq!(api.get(&path).await.ok()["status"], "processing");
    run.answer("hi").await;
    let answered = api.get(&path).await.ok();
    assert_eq!((&answered["status"], answered["processed_at"].is_string()), (&json!("answered"), true));

    let message = api.post_message("again").await;
    worker.claim().await.end(RunStatus::Failed, Some(("TIMEOUT", "too slow"))).await;
    let path = format!("/v1/messages/{}", message["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.ok()["status"], "failed");
}

#[tokio::test]
async fn thread_is_paged_newest_first() {
    let api = TestApi::start().await;
    for number in 1..=5 {
        api.post_message(&format!("message {number}")).await;
    }
    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page = api.get(&api.path(&format!("/messages{query}"))).await.ok();
        for message in page["data"].as_array().unwrap() {
            seen.push(message["content"].as_str().unwrap().to_owned());
        }
        let Some(cursor) = page["next_cursor"].as_str() else {
            assert_eq!(page["has_more"], false);
            break;
        };
        query = format!("?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, (1..=5).rev().map(|number| format!("message {number}")).collect::<Vec<_>>());
    let empty = api.make_goal("Empty").await;
    let page = api.get(&format!("/v1/goals/{empty}/messages")).await.ok();
    assert_eq!(page, json!({"data": [], "has_more": false, "next_cursor": null}));
}

#[tokio::test]
async fn repeated_post_gets_the_first_response_again() {
    let api = TestApi::start().await;
    api.post_message("first").await;
    let worker = Worker::start(&api).await;
    let run = worker.claim().await;
    let key = [("idempotency-key", "k1")];
    let body = json!({"content": "second", "metadata": {"z": 1.50, "a": null}});
    let original = api.post_with(&api.path("/messages"), &key, body.clone()).await;
    assert_eq!((original.status, original.header("idempotent-replayed")), (202, ""));
    // The run ends without having read the message, which now belongs to the next run.
    run.end(RunStatus::Cancelled, None).await;
    let moved = api.get(original.header("location")).await.ok();
    assert_ne!(moved["run_id"], original.json()["run_id"]);

    let replay = api.post_with(&api.path("/messages"), &key, body).await;
    assert_eq!((replay.status, replay.header("idempotent-replayed")), (202, "true"));
    assert_eq!(replay.text(), original.text());
    assert_eq!(replay.header("location"), original.header("location"));
    let other = api.post_with(&api.path("/messages"), &key, json!({"content": "third"})).await;
    other.refused(422, "idempotency_key_reused");
    let elsewhere = api.make_goal("Elsewhere").await;
    let path = format!("/v1/goals/{elsewhere}/messages");
    api.post_with(&path, &key, json!({"content": "second"})).await.refused(422, "idempotency_key_reused");
}

#[tokio::test]
async fn concurrent_duplicates_create_one_message() {
    let api = TestApi::start().await;
    let path = api.path("/messages");
    let key = [("idempotency-key", "once")];
    let answers = join_all((0..20).map(|_| api.post_with(&path, &key, json!({"content": "hello"})))).await;
    let first = answers[0].text();
    assert!(answers.iter().all(|answer| answer.status == 202 && answer.text() == first));
    assert_eq!(answers.iter().filter(|answer| answer.header("idempotent-replayed").is_empty()).count(), 1);
    assert_eq!(api.get(&path).await.ok()["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn user_agents_accept_messages_and_tasks_do_not() {
    let api = TestApi::start().await;
    let user = api.get(&format!("/v1/users/{}", api.user)).await.ok();
    let agent = user["user_agent_id"].as_str().unwrap();
    let posted = api.post(&format!("/v1/user_agents/{agent}/messages"), json!({"content": "hi"})).await;
    assert_eq!(posted.status, 202, "{}", posted.text());
    assert_eq!(posted.json()["user_agent_id"], agent);
    let task = format!("/v1/tasks/task_{}/messages", &api.goal["goal_".len()..]);
    api.post(&task, json!({"content": "hi"})).await.refused(404, "not_found");
}
