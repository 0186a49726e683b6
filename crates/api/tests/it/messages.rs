use futures_util::future::join_all;
use houston_domain::event::Live;
use houston_domain::run::RunStatus;
use houston_queue::{Lane, Received, depths};
use serde_json::json;

use crate::app::App;
use crate::http::PATIENCE;
use crate::worker::Worker;

#[tokio::test]
async fn a_message_is_stored_told_and_rung_for() {
    let app = App::start().await;
    let mut bus = app.state.bus.subscribe(app.agentable());
    bus.ready().await;
    let answer =
        app.post(&app.path("/messages"), json!({"content": "héllo", "metadata": {"b": 1, "a": [2]}})).await;
    assert_eq!(answer.status, 202);
    let message = answer.json();
    assert_eq!(answer.header("location"), format!("/v1/messages/{}", message["id"].as_str().unwrap()));
    assert_eq!(message["goal_id"], app.goal.as_str());
    assert_eq!((&message["status"], &message["source"]), (&json!("pending"), &json!("user")));
    assert_eq!(message["metadata"], json!({"b": 1, "a": [2]}));
    assert_eq!(message["events_url"], app.path("/events?after=0"));

    let Received::Item(item) = bus.recv().await else { panic!("lagged") };
    let Live::Committed(told) = &item.live else { panic!("{item:?}") };
    let stored = app.state.store.events_after(app.agentable(), 0, 10).await.unwrap();
    assert_eq!(told, &stored, "streams are told what Postgres has");

    let rung = async {
        loop {
            let depths = depths(&app.redis).await.unwrap();
            if depths.contains(&(Lane::Interactive, 1)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, rung).await.unwrap();

    // One more joins the run; its stream begins with the run, too.
    let second = app.say("and another").await;
    assert_eq!((&second["run_id"], &second["events_url"]), (&message["run_id"], &message["events_url"]));
    let stored = app.get(answer.header("location")).await.ok();
    let mut expected = message.clone();
    expected.as_object_mut().unwrap().remove("events_url");
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn a_message_tells_how_far_it_has_come() {
    let app = App::start().await;
    let message = app.say("hello").await;
    let path = format!("/v1/messages/{}", message["id"].as_str().unwrap());
    let worker = Worker::start(&app).await;
    let run = worker.claim().await;
    assert_eq!(app.get(&path).await.ok()["status"], "processing");
    run.answer("hi").await;
    let answered = app.get(&path).await.ok();
    assert_eq!((&answered["status"], answered["processed_at"].is_string()), (&json!("answered"), true));

    let message = app.say("again").await;
    worker.claim().await.end(RunStatus::Failed, Some(("TIMEOUT", "too slow"))).await;
    let path = format!("/v1/messages/{}", message["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.ok()["status"], "failed");
}

#[tokio::test]
async fn the_thread_is_paged_newest_first() {
    let app = App::start().await;
    for number in 1..=5 {
        app.say(&format!("message {number}")).await;
    }
    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page = app.get(&app.path(&format!("/messages{query}"))).await.ok();
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
    let empty = app.make_goal("Empty").await;
    let page = app.get(&format!("/v1/goals/{empty}/messages")).await.ok();
    assert_eq!(page, json!({"data": [], "has_more": false, "next_cursor": null}));
}

#[tokio::test]
async fn a_repeated_message_is_the_same_message_whatever_became_of_it() {
    let app = App::start().await;
    app.say("first").await;
    let worker = Worker::start(&app).await;
    let run = worker.claim().await;
    let key = [("idempotency-key", "k1")];
    let body = json!({"content": "second", "metadata": {"z": 1.50, "a": null}});
    let original = app.post_with(&app.path("/messages"), &key, body.clone()).await;
    assert_eq!((original.status, original.header("idempotent-replayed")), (202, ""));
    // The run ends without having read it: the message now belongs to the next run.
    run.end(RunStatus::Cancelled, None).await;
    let moved = app.get(original.header("location")).await.ok();
    assert_ne!(moved["run_id"], original.json()["run_id"]);

    let replay = app.post_with(&app.path("/messages"), &key, body).await;
    assert_eq!((replay.status, replay.header("idempotent-replayed")), (202, "true"));
    assert_eq!(replay.text(), original.text());
    assert_eq!(replay.header("location"), original.header("location"));
    let other = app.post_with(&app.path("/messages"), &key, json!({"content": "third"})).await;
    other.refused(422, "idempotency_key_reused");
    let elsewhere = app.make_goal("Elsewhere").await;
    let path = format!("/v1/goals/{elsewhere}/messages");
    app.post_with(&path, &key, json!({"content": "second"})).await.refused(422, "idempotency_key_reused");
}

#[tokio::test]
async fn duplicates_at_the_same_time_make_one_message() {
    let app = App::start().await;
    let path = app.path("/messages");
    let key = [("idempotency-key", "once")];
    let answers = join_all((0..20).map(|_| app.post_with(&path, &key, json!({"content": "hello"})))).await;
    let first = answers[0].text();
    assert!(answers.iter().all(|answer| answer.status == 202 && answer.text() == first));
    assert_eq!(answers.iter().filter(|answer| answer.header("idempotent-replayed").is_empty()).count(), 1);
    assert_eq!(app.get(&path).await.ok()["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_task_takes_no_messages_and_a_user_agent_does() {
    let app = App::start().await;
    let user = app.get(&format!("/v1/users/{}", app.user)).await.ok();
    let agent = user["user_agent_id"].as_str().unwrap();
    let posted = app.post(&format!("/v1/user_agents/{agent}/messages"), json!({"content": "hi"})).await;
    assert_eq!(posted.status, 202, "{}", posted.text());
    assert_eq!(posted.json()["user_agent_id"], agent);
    let task = format!("/v1/tasks/task_{}/messages", &app.goal["goal_".len()..]);
    app.post(&task, json!({"content": "hi"})).await.refused(404, "not_found");
}
