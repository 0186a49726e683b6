//! A provider that fails, seen through everything: real processes, a real HTTP client, the stream, the API.

use std::sync::Mutex;

use houston_testkit::model_server::script::{always, in_turn};
use houston_testkit::model_server::{Fault, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::house::House;

fn says(text: &str) -> Reply {
    Reply::tool("send_message", json!({"content": text}))
}

/// The error messages of a thread.
async fn errors(house: &House, goal: &str) -> Vec<Value> {
    let page = house.get(&format!("/v1/goals/{goal}/messages?limit=100")).await;
    page["data"].as_array().unwrap().iter().filter(|message| message["source"] == "error").cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_the_countdown_the_recovery_and_the_last_word() {
    let house = House::start();
    let (whole, read) = (says("Hello, dear reader!").in_pieces(6), Gate::new());
    let server = ModelServer::start(in_turn([
        // It breaks off once somebody has read some of it.
        whole.clone().held_after(4, &read).fault(Fault::CutAfterChunks(5)),
        Reply::status(429).header("retry-after-ms", "300"),
        whole,
        Reply::status(401),
    ]))
    .await
    .unwrap();
    let url = server.url();
    let _worker = house.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_BASE_URL", &url),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "500"),
    ]);
    let goal = house.goal("outage").await;
    let message = house.post(&goal, "1", "hello").await;
    let watched = house
        .watch_with(message["events_url"].as_str().unwrap(), |event| {
            if event["type"] == "TEXT_MESSAGE_CONTENT" {
                read.open();
            }
        })
        .await;
    assert_eq!(house.answered(&message).await["status"], "answered");
    assert_eq!(server.journal().calls(), 3);

    let states = &watched.errors;
    assert_eq!(states.len(), 3, "{states:?}");
    assert_eq!((&states[0]["code"], &states[0]["of"]), (&json!("NETWORK_ERROR"), &json!(3)));
    assert_eq!((&states[1]["code"], &states[1]["attempt"]), (&json!("RATE_LIMITED"), &json!(2)));
    assert!(states[..2].iter().all(|state| state["retryable"] == true && state["retry_at"].is_string()));
    assert_eq!((&states[2]["resolved"], states[2].get("retry_at")), (&json!(true), None));
    assert!(watched.types.iter().any(|kind| kind == "MESSAGES_SNAPSHOT"), "the broken text was taken back");
    assert_eq!(
        watched.texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        ["Hello, dear reader!"]
    );
    assert_eq!(house.said(&goal).await, ["Hello, dear reader!"]);
    let told = errors(&house, &goal).await;
    assert_eq!((told.len(), &told[0]["metadata"]["resolved"]), (1, &json!(true)));
    // Whoever reads it all again sees the same.
    let again = house.watch(&format!("/v1/goals/{goal}/events?after=0")).await;
    assert_eq!(&again.errors, states);

    let refused = house.post(&goal, "2", "and again").await;
    assert_eq!(house.answered(&refused).await["status"], "failed");
    let told = errors(&house, &goal).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0]["content"].as_str().unwrap().starts_with("Failed permanently: "), "{told:?}");
    assert_eq!(
        told[0]["metadata"],
        json!({"code": "AUTHENTICATION_ERROR", "retryable": false, "failed_permanently": true})
    );
    let watched = house.watch(refused["events_url"].as_str().unwrap()).await;
    assert_eq!(watched.errors.last().unwrap()["failed_permanently"], true);
    assert_eq!(watched.types.last().map(String::as_str), Some("RUN_ERROR"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_that_another_model_answers() {
    let house = House::start();
    let busy = ModelServer::start(always(Reply::status(503))).await.unwrap();
    let up = ModelServer::start(always(says("Hello!"))).await.unwrap();
    let (busy_url, up_url) = (busy.url(), up.url());
    let _worker = house.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted, local/spare"),
        ("OPENAI_BASE_URL", &busy_url),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_LOCAL_URL", &up_url),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
    ]);
    let goal = house.goal("spare").await;
    let message = house.post(&goal, "1", "hello").await;
    let told = Mutex::new(Vec::new());
    let watched = house
        .watch_with(message["events_url"].as_str().unwrap(), |event| {
            if event["name"] == "houston.model.fallback" {
                told.lock().unwrap().push(event["value"].clone());
            }
        })
        .await;
    assert_eq!(watched.texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["Hello!"]);
    let told = told.into_inner().unwrap();
    let [change] = &told[..] else { panic!("one change, one event: {told:?}") };
    assert_eq!(
        (&change["from"], &change["to"], &change["code"]),
        (&json!("openai/scripted"), &json!("local/spare"), &json!("NETWORK_ERROR"))
    );
    assert_eq!((busy.journal().calls(), up.journal().calls()), (1, 1));
    assert!(errors(&house, &goal).await.is_empty());
}
