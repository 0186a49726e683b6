//! The error message of a failing run as clients see it: while it is retried, once it is resolved, and when it is
//! permanent.

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::error_message::{ErrorMessage, PendingRetry};
use houston_domain::event::Part;
use houston_domain::id::{AgentableId, RunId, parse_prefixed};
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_store::agentable::NewAgentable;
use houston_store::message::NewPost;
use serde_json::{Value, json};

use crate::http::{End, Frame, kinds};
use crate::test_api::TestApi;
use crate::worker::Worker;

pub(crate) fn waiting(run: RunId, attempt: i32) -> ErrorMessage {
    let since = DateTime::<Utc>::UNIX_EPOCH;
    let retry = PendingRetry { attempt, of: 5, retry_at: since + TimeDelta::seconds(10), since };
    ErrorMessage::waiting(run, &ModelError::new(ModelErrorCode::RateLimited, "acme: slow down"), &retry, &[])
}

/// The activities a client has after `frames`, by id.
fn activities(frames: &[Frame]) -> serde_json::Map<String, Value> {
    let mut activities = serde_json::Map::new();
    for frame in frames {
        match frame.kind() {
            "ACTIVITY_SNAPSHOT" => {
                assert_eq!(frame.data["activityType"], "houston.error");
                let id = frame.data["messageId"].as_str().unwrap().to_owned();
                activities.insert(id, frame.data["content"].clone());
            }
            "MESSAGES_SNAPSHOT" => {
                activities.clear();
                for message in frame.data["messages"].as_array().unwrap() {
                    if message["role"] == "activity" {
                        assert_eq!(message["activityType"], "houston.error");
                        let id = message["id"].as_str().unwrap().to_owned();
                        assert_eq!(
                            activities.insert(id, message["content"].clone()),
                            None,
                            "twice in a snapshot"
                        );
                    }
                }
            }
            _ => {}
        }
    }
    activities
}

/// The error messages of the thread from the list of messages, in the shape of an activity.
async fn listed(api: &TestApi) -> serde_json::Map<String, Value> {
    let page = api.get(&api.path("/messages")).await.ok();
    let errors = page["data"].as_array().unwrap().iter().filter(|message| message["source"] == "error");
    errors
        .map(|message| {
            let activities =
                ErrorMessage::client_fields(message["content"].as_str().unwrap(), &message["metadata"]);
            (message["id"].as_str().unwrap().to_owned(), activities)
        })
        .collect()
}

#[tokio::test]
async fn error_message_is_updated_and_equal_after_every_resume() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let mut stream = api.stream("", None).await;
    let mut all = stream.until("houston.message.posted").await;
    let mut test_run = worker.claim().await;
    let run = test_run.run();
    let id = ErrorMessage::id_of(run).to_string();

    // The first attempt breaks off in the middle of its text.
    all.extend(stream.until("STEP_STARTED").await);
    test_run.write(Part::Message, 0, 0, "I think");
    all.extend(stream.until("TEXT_MESSAGE_CONTENT").await);
    test_run.schedule_retry(&waiting(run, 1)).await;
    let broken = stream.until("houston.retry.scheduled").await;
    assert_eq!(
        kinds(&broken),
        [
            "ACTIVITY_SNAPSHOT",
            "TEXT_MESSAGE_END",
            "MESSAGES_SNAPSHOT",
            "STEP_FINISHED",
            "houston.retry.scheduled"
        ]
    );
    let counting = json!({"code": "RATE_LIMITED", "retryable": true, "attempt": 1, "of": 5, "text": "The AI model is busy right now.",
                          "retry_at": "1970-01-01T00:00:10.000Z", "since": "1970-01-01T00:00:00.000Z"});
    assert_eq!(broken[0].data["content"], counting);
    assert_eq!(broken[0].data["messageId"], id.as_str());
    let remaining = broken[2].data["messages"].as_array().unwrap();
    assert_eq!(remaining.len(), 2, "the message and the error, no partial answer: {remaining:?}");
    assert_eq!((&remaining[1]["role"], &remaining[1]["content"]), (&json!("activity"), &counting));
    assert_eq!(listed(&api).await, activities(&broken));
    all.extend(broken);

    // The second fails too: the same message is updated.
    test_run = worker.claim().await;
    test_run.schedule_retry(&waiting(run, 2)).await;
    all.extend(stream.until("houston.retry.scheduled").await);
    assert_eq!(activities(&all)[&id]["attempt"], 2);
    assert_eq!(listed(&api).await, activities(&all));

    // The third answers. Its text is open when the error is resolved.
    test_run = worker.claim().await;
    all.extend(stream.until("STEP_STARTED").await);
    test_run.write(Part::Message, 0, 0, "Hel");
    all.extend(stream.until("TEXT_MESSAGE_CONTENT").await);
    test_run.recover("Hello!", &waiting(run, 2).settled(true)).await;
    let (rest, end) = stream.rest().await;
    assert_eq!(end, End::Clean);
    assert_eq!(
        kinds(&rest),
        ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "ACTIVITY_SNAPSHOT", "STEP_FINISHED", "RUN_FINISHED"]
    );
    all.extend(rest);
    let settled = json!({"code": "RATE_LIMITED", "retryable": false, "attempt": 2, "of": 5, "resolved": true,
                         "text": "The AI model is busy right now."});
    assert_eq!(activities(&all)[&id], settled);
    assert_eq!(listed(&api).await, activities(&all));

    for (number, frame) in all.iter().enumerate().take(all.len() - 1) {
        let (rest, end) = api.stream("", Some(&frame.id)).await.rest().await;
        let joined: Vec<Frame> = all[..=number].iter().cloned().chain(rest).collect();
        assert_eq!((activities(&joined), end), (activities(&all), End::Clean), "after {}", frame.id);
    }
}

#[tokio::test]
async fn permanent_failure_is_in_the_message_and_in_snapshots() {
    let api = TestApi::start().await;
    api.post_message("hello").await;
    let worker = Worker::start(&api).await;
    let test_run = worker.claim().await;
    let run = test_run.run();
    test_run.schedule_retry(&waiting(run, 1)).await;
    worker
        .claim()
        .await
        .fail_permanently(&ErrorMessage::permanent(run, "RATE_LIMITED", "acme: slow down"))
        .await;
    let (all, _) = api.stream("?after=0", None).await.rest().await;
    assert_eq!(kinds(&all)[kinds(&all).len() - 3..], ["ACTIVITY_SNAPSHOT", "STEP_FINISHED", "RUN_ERROR"]);
    let last = json!({"code": "RATE_LIMITED", "retryable": false, "failed_permanently": true,
                      "text": "Failed permanently: acme: slow down"});
    let id = ErrorMessage::id_of(run).to_string();
    assert_eq!(activities(&all)[&id], last);
    assert_eq!(listed(&api).await, activities(&all));

    api.post_message("again").await;
    let test_run = worker.claim().await;
    let mut stream = api.stream("", None).await;
    stream.until("STEP_STARTED").await;
    test_run.write(Part::Message, 0, 0, "I");
    stream.until("TEXT_MESSAGE_CONTENT").await;
    test_run.hand_over().await;
    let broken = stream.until("MESSAGES_SNAPSHOT").await;
    let messages = broken.last().unwrap().data["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "activity", "user"], "the error keeps its first position");
    assert_eq!(messages[1]["content"], last);
}

#[tokio::test]
async fn task_is_paused_while_its_run_waits_for_a_retry() {
    let api = TestApi::start().await;
    let ids = &api.state.ids;
    let tenant = api.store.operator().ensure_tenant(ids.next(), "acme").await.unwrap();
    let id: AgentableId = ids.next();
    let task = NewAgentable {
        id,
        user: parse_prefixed("user", &api.user).unwrap().into(),
        kind: "task",
        title: "Look it up",
        description: "",
        status: Some("active"),
        tools: None,
        created_at: ids.clock().now(),
    };
    api.store.tenant(tenant).create_agentable(&task, (None, &Value::Null)).await.unwrap();
    let path = format!("/v1/tasks/{}", id.public_id("task"));
    let status = || async { api.get(&path).await.ok()["status"].as_str().unwrap().to_owned() };
    let goal = || async { api.get(&api.path("")).await.ok()["status"].as_str().unwrap().to_owned() };
    assert_eq!((status().await, goal().await), ("active".into(), "waiting".into()));

    let post = || NewPost::new(ids.next(), ids.next(), "go", json!({}));
    api.store.tenant(tenant).post_message(id, &post(), None).await.unwrap();
    api.post_message("hello").await;
    assert_eq!((status().await, goal().await), ("active".into(), "working".into()));
    let worker = Worker::start(&api).await;
    for of in [id, api.agentable()] {
        let test_run = worker.claim_of(of).await;
        let error = waiting(test_run.run(), 1);
        test_run.schedule_retry(&error).await;
    }
    assert_eq!((status().await, goal().await), ("paused".into(), "working".into()));
    for of in [id, api.agentable()] {
        worker.claim_of(of).await.answer("done").await;
    }
    assert_eq!((status().await, goal().await), ("completed".into(), "waiting".into()));
    api.store.tenant(tenant).post_message(id, &post(), None).await.unwrap();
    worker.claim_of(id).await.end(houston_domain::run::RunStatus::Cancelled, None).await;
    assert_eq!(status().await, "cancelled");
}
