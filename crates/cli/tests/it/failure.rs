//! Failures of a model provider, end to end: processes, HTTP client, event stream, API.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use houston_testkit::model_server::script::{always, in_turn};
use houston_testkit::model_server::{Call, Fault, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

fn says(text: &str) -> Reply {
    Reply::tool("send_message", json!({"content": text}))
}

/// The error messages of a thread.
async fn errors(houston: &TestHouston, goal: &str) -> Vec<Value> {
    let page = houston.get(&format!("/v1/goals/{goal}/messages?limit=100")).await;
    page["data"].as_array().unwrap().iter().filter(|message| message["source"] == "error").cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_reports_retries_recovery_and_failure() {
    let houston = TestHouston::start();
    let (whole, read) = (says("Hello, dear reader!").in_pieces(6), Gate::new());
    let server = ModelServer::start(in_turn([
        // The connection breaks after the client has read a part of the answer.
        whole.clone().held_after(4, &read).fault(Fault::CutAfterChunks(5)),
        Reply::status(429).header("retry-after-ms", "300"),
        whole,
        Reply::status(401),
    ]))
    .await
    .unwrap();
    let url = server.url();
    let _worker = houston.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_BASE_URL", &url),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "500"),
    ]);
    let goal = houston.goal("outage").await;
    let message = houston.post(&goal, "1", "hello").await;
    let received = houston
        .watch_with(message["events_url"].as_str().unwrap(), |event| {
            if event["type"] == "TEXT_MESSAGE_CONTENT" {
                read.open();
            }
        })
        .await;
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    assert_eq!(server.journal().calls(), 3);

    let states = &received.errors;
    assert_eq!(states.len(), 3, "{states:?}");
    assert_eq!((&states[0]["code"], &states[0]["of"]), (&json!("NETWORK_ERROR"), &json!(3)));
    assert_eq!((&states[1]["code"], &states[1]["attempt"]), (&json!("RATE_LIMITED"), &json!(2)));
    assert!(states[..2].iter().all(|state| state["retryable"] == true && state["retry_at"].is_string()));
    assert_eq!((&states[2]["resolved"], states[2].get("retry_at")), (&json!(true), None));
    assert!(received.types.iter().any(|kind| kind == "MESSAGES_SNAPSHOT"), "the partial text was taken back");
    assert_eq!(
        received.texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        ["Hello, dear reader!"]
    );
    assert_eq!(houston.agent_texts(&goal).await, ["Hello, dear reader!"]);
    let messages = errors(&houston, &goal).await;
    assert_eq!((messages.len(), &messages[0]["metadata"]["resolved"]), (1, &json!(true)));
    // Reading the stream again from the start gives the same result.
    let again = houston.watch(&format!("/v1/goals/{goal}/events?after=0")).await;
    assert_eq!(&again.errors, states);

    let refused = houston.post(&goal, "2", "and again").await;
    assert_eq!(houston.wait_until_answered(&refused).await["status"], "failed");
    let messages = errors(&houston, &goal).await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0]["content"].as_str().unwrap().starts_with("Failed permanently: "), "{messages:?}");
    assert_eq!(
        messages[0]["metadata"],
        json!({"code": "AUTHENTICATION_ERROR", "retryable": false, "failed_permanently": true})
    );
    let received = houston.watch(refused["events_url"].as_str().unwrap()).await;
    assert_eq!(received.errors.last().unwrap()["failed_permanently"], true);
    assert_eq!(received.types.last().map(String::as_str), Some("RUN_ERROR"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fallback_is_reported_and_an_open_breaker_is_named() {
    let houston = TestHouston::start();
    let busy = ModelServer::start(always(Reply::status(503))).await.unwrap();
    let up = ModelServer::start(always(says("Hello!"))).await.unwrap();
    let (busy_url, up_url) = (busy.url(), up.url());
    let worker = houston.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted, local/spare"),
        ("OPENAI_BASE_URL", &busy_url),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_LOCAL_URL", &up_url),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
    ]);
    let goal = houston.goal("spare").await;
    let message = houston.post(&goal, "1", "hello").await;
    let changes = Mutex::new(Vec::new());
    let received = houston
        .watch_with(message["events_url"].as_str().unwrap(), |event| {
            if event["name"] == "houston.model.fallback" {
                changes.lock().unwrap().push(event["value"].clone());
            }
        })
        .await;
    assert_eq!(received.texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["Hello!"]);
    let changes = changes.into_inner().unwrap();
    let [change] = &changes[..] else { panic!("one change, one event: {changes:?}") };
    assert_eq!(
        (&change["from"], &change["to"], &change["code"]),
        (&json!("openai/scripted"), &json!("local/spare"), &json!("NETWORK_ERROR"))
    );
    assert_eq!((busy.journal().calls(), up.journal().calls()), (1, 1));
    assert!(errors(&houston, &goal).await.is_empty());
    drop(worker);
    why_names_the_breaker_while_it_is_open(&houston, &goal).await;
}

/// The only model of a worker fails, and is mended.
async fn why_names_the_breaker_while_it_is_open(houston: &TestHouston, goal: &str) {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let reply = move |_: &Call| match broken.load(Ordering::Relaxed) {
        true => Reply::status(503),
        false => says("Hello again!"),
    };
    let server = ModelServer::start(reply).await.unwrap();
    let url = server.url();
    let _worker = houston.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_BASE_URL", &url),
        ("OPENAI_API_KEY", "sk-test"),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        ("HOUSTON_ORCHESTRATOR__RETRY__BREAKER__MIN_CALLS", "1"),
        ("HOUSTON_ORCHESTRATOR__RETRY__BREAKER__OPEN_MS", "5000"),
        ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__BASE_MS", "200"),
        // However long a busy machine takes, the run does not fail.
        ("HOUSTON_ORCHESTRATOR__RETRY__DELAYED__NETWORK", "100"),
    ]);
    let message = houston.post(goal, "2", "and again").await;
    let id = message["id"].as_str().unwrap();
    let open = why_once(houston, id, "breaker_open").await;
    for part in ["until 20", "not called because most recent calls failed", "the key (`houston doctor`)"] {
        assert!(open.contains(part), "{part}: {open}");
    }
    is_broken.store(false, Ordering::Relaxed);
    assert_eq!(houston.wait_until_answered(&message).await["status"], "answered");
    let ended = why_once(houston, id, "idle").await;
    assert!(!ended.contains("breaker_open"), "{ended}");
}

/// What `houston why` says, once it names this cause.
async fn why_once(houston: &TestHouston, id: &str, cause: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = houston.run(&["why", id], &[]);
        if found.contains(&format!("  {cause}  ")) {
            return found;
        }
        assert!(Instant::now() < deadline, "never {cause}: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
