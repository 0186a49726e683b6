//! What a client sees of a run that fails: a message that counts down, is settled, or is the last word.

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::agentable::DoubleTexting;
use houston_domain::error_message::{PendingRetry, ErrorMessage};
use houston_domain::event::Part;
use houston_domain::id::{AgentableId, RunId, parse_prefixed};
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_store::agentable::NewAgentable;
use houston_store::message::NewPost;
use serde_json::{Value, json};

use crate::app::App;
use crate::http::{End, Frame, kinds};
use crate::worker::Worker;

fn waiting(run: RunId, attempt: i32) -> ErrorMessage {
    let since = DateTime::<Utc>::UNIX_EPOCH;
    let retry = PendingRetry { attempt, of: 5, retry_at: since + TimeDelta::seconds(10), since };
    ErrorMessage::waiting(run, &ModelError::new(ModelErrorCode::RateLimited, "acme: slow down"), &retry)
}

/// The activities a client ends up with, by id.
fn activities(frames: &[Frame]) -> serde_json::Map<String, Value> {
    let mut shown = serde_json::Map::new();
    for frame in frames {
        match frame.kind() {
            "ACTIVITY_SNAPSHOT" => {
                assert_eq!(frame.data["activityType"], "houston.error");
                let id = frame.data["messageId"].as_str().unwrap().to_owned();
                shown.insert(id, frame.data["content"].clone());
            }
            "MESSAGES_SNAPSHOT" => {
                shown.clear();
                for message in frame.data["messages"].as_array().unwrap() {
                    if message["role"] == "activity" {
                        assert_eq!(message["activityType"], "houston.error");
                        let id = message["id"].as_str().unwrap().to_owned();
                        assert_eq!(shown.insert(id, message["content"].clone()), None, "twice in a snapshot");
                    }
                }
            }
            _ => {}
        }
    }
    shown
}

/// The error message of a thread as the list of messages has it, in the shape of an activity.
async fn listed(app: &App) -> serde_json::Map<String, Value> {
    let page = app.get(&app.path("/messages")).await.ok();
    let errors = page["data"].as_array().unwrap().iter().filter(|message| message["source"] == "error");
    errors
        .map(|message| {
            let shown = ErrorMessage::shown(message["content"].as_str().unwrap(), &message["metadata"]);
            (message["id"].as_str().unwrap().to_owned(), shown)
        })
        .collect()
}

#[tokio::test]
async fn an_error_counts_down_is_settled_and_is_the_same_wherever_a_reader_resumes() {
    let app = App::start().await;
    app.say("hello").await;
    let worker = Worker::start(&app).await;
    let mut stream = app.stream("", None).await;
    let mut all = stream.until("houston.message.posted").await;
    let mut driven = worker.claim().await;
    let run = driven.run();
    let id = ErrorMessage::id_of(run).to_string();

    // The first attempt breaks off in the middle of its text.
    all.extend(stream.until("STEP_STARTED").await);
    driven.write(Part::Message, 0, 0, "I think");
    all.extend(stream.until("TEXT_MESSAGE_CONTENT").await);
    driven.wait(&waiting(run, 1)).await;
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
    let kept = broken[2].data["messages"].as_array().unwrap();
    assert_eq!(kept.len(), 2, "what was asked and what went wrong, without the partial answer: {kept:?}");
    assert_eq!((&kept[1]["role"], &kept[1]["content"]), (&json!("activity"), &counting));
    assert_eq!(listed(&app).await, activities(&broken));
    all.extend(broken);

    // The second fails too: the same message, changed.
    driven = worker.claim().await;
    driven.wait(&waiting(run, 2)).await;
    all.extend(stream.until("houston.retry.scheduled").await);
    assert_eq!(activities(&all)[&id]["attempt"], 2);
    assert_eq!(listed(&app).await, activities(&all));

    // The third answers. Its text is open when the error is settled beside it.
    driven = worker.claim().await;
    all.extend(stream.until("STEP_STARTED").await);
    driven.write(Part::Message, 0, 0, "Hel");
    all.extend(stream.until("TEXT_MESSAGE_CONTENT").await);
    driven.recover("Hello!", &waiting(run, 2).settled(true)).await;
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
    assert_eq!(listed(&app).await, activities(&all));

    for (number, frame) in all.iter().enumerate().take(all.len() - 1) {
        let (rest, end) = app.stream("", Some(&frame.id)).await.rest().await;
        let joined: Vec<Frame> = all[..=number].iter().cloned().chain(rest).collect();
        assert_eq!((activities(&joined), end), (activities(&all), End::Clean), "after {}", frame.id);
    }
}

#[tokio::test]
async fn a_run_given_up_says_so_in_its_message_and_in_a_later_snapshot() {
    let app = App::start().await;
    app.say("hello").await;
    let worker = Worker::start(&app).await;
    let driven = worker.claim().await;
    let run = driven.run();
    driven.wait(&waiting(run, 1)).await;
    worker.claim().await.give_up(&ErrorMessage::permanent(run, "RATE_LIMITED", "acme: slow down")).await;
    let (all, _) = app.stream("?after=0", None).await.rest().await;
    assert_eq!(kinds(&all)[kinds(&all).len() - 3..], ["ACTIVITY_SNAPSHOT", "STEP_FINISHED", "RUN_ERROR"]);
    let last = json!({"code": "RATE_LIMITED", "retryable": false, "failed_permanently": true,
                      "text": "Failed permanently: acme: slow down"});
    let id = ErrorMessage::id_of(run).to_string();
    assert_eq!(activities(&all)[&id], last);
    assert_eq!(listed(&app).await, activities(&all));

    app.say("again").await;
    let driven = worker.claim().await;
    let mut stream = app.stream("", None).await;
    stream.until("STEP_STARTED").await;
    driven.write(Part::Message, 0, 0, "I");
    stream.until("TEXT_MESSAGE_CONTENT").await;
    driven.hand_over().await;
    let broken = stream.until("MESSAGES_SNAPSHOT").await;
    let messages = broken.last().unwrap().data["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "activity", "user"], "where it first appeared");
    assert_eq!(messages[1]["content"], last);
}

#[tokio::test]
async fn a_task_pauses_while_its_run_waits() {
    let app = App::start().await;
    let ids = &app.state.ids;
    let tenant = app.state.store.ensure_tenant(ids.next(), "acme").await.unwrap();
    let id: AgentableId = ids.next();
    let task = NewAgentable {
        id,
        user: parse_prefixed("user", &app.user).unwrap().into(),
        kind: "task",
        title: "Look it up",
        description: "",
        status: Some("active"),
        tools: None,
        created_at: ids.clock().now(),
    };
    app.state.store.create_agentable(tenant, &task, None, &Value::Null).await.unwrap();
    let path = format!("/v1/tasks/{}", id.shown("task"));
    let status = || async { app.get(&path).await.ok()["status"].as_str().unwrap().to_owned() };
    let goal = || async { app.get(&app.path("")).await.ok()["status"].as_str().unwrap().to_owned() };
    assert_eq!((status().await, goal().await), ("active".into(), "waiting".into()));

    let nothing = json!({});
    let post = || NewPost {
        id: ids.next(),
        run: ids.next(),
        content: "go",
        metadata: &nothing,
        double_texting: DoubleTexting::Enqueue,
    };
    app.state.store.post_message(tenant, id, &post(), None).await.unwrap();
    app.say("hello").await;
    assert_eq!((status().await, goal().await), ("active".into(), "working".into()));
    let worker = Worker::start(&app).await;
    for of in [id, app.agentable()] {
        let driven = worker.claim_of(of).await;
        let error = waiting(driven.run(), 1);
        driven.wait(&error).await;
    }
    assert_eq!((status().await, goal().await), ("paused".into(), "working".into()));
    for of in [id, app.agentable()] {
        worker.claim_of(of).await.answer("done").await;
    }
    assert_eq!((status().await, goal().await), ("completed".into(), "waiting".into()));
    app.state.store.post_message(tenant, id, &post(), None).await.unwrap();
    worker.claim_of(id).await.end(houston_domain::run::RunStatus::Cancelled, None).await;
    assert_eq!(status().await, "cancelled");
}
