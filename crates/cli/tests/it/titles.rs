//! Generated titles: one after the third message, once, despite crashes, and never in place of a given title.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use houston_testkit::model_server::{Call, Fault, Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::test_houston::{PATIENCE, TestHouston};

fn names(call: &Call) -> bool {
    call.system().contains("You name conversations")
}

fn answer() -> Reply {
    Reply::tool("send_message", json!({"content": "Good."}))
}

fn worker(houston: &TestHouston, url: &str) -> Process {
    houston.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_API_KEY", "sk-test"),
        ("OPENAI_BASE_URL", url),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        // A title whose worker died is taken over soon.
        ("HOUSTON_ORCHESTRATOR__CONTEXT__TITLES__SWEEP_S", "1"),
        ("HOUSTON_ORCHESTRATOR__CONTEXT__TITLES__TIMEOUT_S", "10"),
    ])
}

/// Creates a goal without a title.
async fn goal_without_title(houston: &TestHouston, name: &str) -> String {
    let user = houston.create("/v1/users", &format!("user {name}"), &json!({"name": name})).await;
    let goal = houston.create("/v1/goals", &format!("goal {name}"), &json!({"user_id": user["id"]})).await;
    assert_eq!(goal["title"], "");
    goal["id"].as_str().unwrap().to_owned()
}

async fn post_all(houston: &TestHouston, goal: &str, texts: &[&str]) -> Value {
    let mut last = Value::Null;
    for text in texts {
        last = houston.post(goal, &format!("{goal} {text}"), text).await;
        assert_eq!(houston.wait_until_answered(&last).await["status"], "answered");
    }
    last
}

async fn wait_for_title(houston: &TestHouston, goal: &str) -> String {
    let goal = houston.wait_until(&format!("/v1/goals/{goal}"), "a title", |goal| goal["title"] != "").await;
    goal["title"].as_str().unwrap().to_owned()
}

/// The titles in a stream read from its start; also checks that AG-UI clients accept the stream.
async fn streamed_titles(houston: &TestHouston, goal: &str) -> Vec<String> {
    let (titles, running) = (Mutex::new(Vec::new()), Mutex::new(false));
    let received = houston
        .watch_with(&format!("/v1/goals/{goal}/events?after=0"), |event| {
            let mut running = running.lock().unwrap();
            match event["type"].as_str().unwrap() {
                "RUN_STARTED" => *running = true,
                "RUN_FINISHED" => *running = false,
                kind => assert!(*running, "{kind} outside of a run: {event}"),
            }
            if event["name"] == "houston.title.set" {
                titles.lock().unwrap().push(event["value"]["title"].as_str().unwrap().to_owned());
            }
        })
        .await;
    assert_eq!(received.types.last().map(String::as_str), Some("RUN_FINISHED"));
    titles.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn untitled_goal_gets_a_title_after_the_third_message() {
    let houston = TestHouston::start();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let model = ModelServer::start(move |call: &Call| {
        if names(call) {
            seen.lock().unwrap().push(call.last_user_text());
            return Reply::text("\"Whales around the island.\"\n").usage(100, 7);
        }
        answer()
    })
    .await
    .unwrap();
    let _worker = worker(&houston, &model.url());
    let goal = goal_without_title(&houston, "Ada").await;
    post_all(&houston, &goal, &["Hello", "We want to see whales"]).await;
    assert_eq!(houston.get(&format!("/v1/goals/{goal}")).await["title"], "");
    let third = post_all(&houston, &goal, &["Around the island"]).await;
    assert_eq!(wait_for_title(&houston, &goal).await, "Whales around the island");
    assert_eq!(streamed_titles(&houston, &goal).await, ["Whales around the island"]);
    let calls = houston.get(&format!("/v1/runs/{}/model_calls", third["run_id"].as_str().unwrap())).await;
    let counted =
        calls["data"].as_array().unwrap().iter().filter(|call| call["usage"]["input_tokens"] == 100);
    assert_eq!(counted.count(), 1, "{calls}");

    post_all(&houston, &goal, &["And then?", "Home."]).await;
    let asked = asked.lock().unwrap().clone();
    let [asked] = &asked[..] else { panic!("asked once: {asked:?}") };
    for part in ["[user] Hello", "[agent] Good.", "[user] Around the island"] {
        assert!(asked.contains(part), "{asked}");
    }
    assert_eq!(streamed_titles(&houston, &goal).await.len(), 1);
    let last = model.journal().last().unwrap();
    assert!(String::from_utf8_lossy(&last.body).contains("Whales around the island"), "the prompt has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn given_titles_stay_and_other_kinds_require_one() {
    let houston = TestHouston::start();
    let titles = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&titles);
    let model = ModelServer::start(move |call: &Call| {
        if names(call) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        answer()
    })
    .await
    .unwrap();
    let _worker = worker(&houston, &model.url());
    let goal = houston.goal("Learn to sail").await;
    post_all(&houston, &goal, &["one", "two", "three", "four"]).await;
    assert_eq!(houston.get(&format!("/v1/goals/{goal}")).await["title"], "Learn to sail");
    assert_eq!(houston.sql("select count(*) from houston.title_requests"), "0");
    assert_eq!(titles.load(Ordering::Relaxed), 0);

    // A user sets the title while one is being generated.
    let gate = Gate::new();
    let held = gate.clone();
    let slow = ModelServer::start(
        move |call: &Call| {
            if names(call) { Reply::text("Found").held_by(&held) } else { answer() }
        },
    )
    .await
    .unwrap();
    drop(_worker);
    let _worker = worker(&houston, &slow.url());
    let goal = goal_without_title(&houston, "Bob").await;
    post_all(&houston, &goal, &["one", "two", "three"]).await;
    assert!(slow.journal().wait_until(PATIENCE, |journal| journal.calls() == 4).await);
    houston.sql("update houston.agentables set title = 'Mine' where title = ''");
    gate.open();
    let deadline = std::time::Instant::now() + PATIENCE;
    while houston.sql("select count(*) from houston.title_requests") != "0" {
        assert!(std::time::Instant::now() < deadline, "the request never goes");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(houston.get(&format!("/v1/goals/{goal}")).await["title"], "Mine");
    assert!(streamed_titles(&houston, &goal).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn title_is_generated_once_after_its_worker_dies() {
    let houston = TestHouston::start();
    let gate = Gate::new();
    let held = gate.clone();
    let model = ModelServer::start(
        move |call: &Call| {
            if names(call) { Reply::text("Whales").held_by(&held) } else { answer() }
        },
    )
    .await
    .unwrap();
    let mut first = worker(&houston, &model.url());
    let goal = goal_without_title(&houston, "Ada").await;
    post_all(&houston, &goal, &["one", "two", "three"]).await;
    assert!(
        model.journal().wait_until(PATIENCE, |journal| journal.calls() == 4).await,
        "a title is looked for"
    );
    first.kill().unwrap();
    gate.open();
    let _others = [worker(&houston, &model.url()), worker(&houston, &model.url())];
    assert_eq!(wait_for_title(&houston, &goal).await, "Whales");
    assert_eq!(streamed_titles(&houston, &goal).await, ["Whales"]);
    assert_eq!(houston.sql("select count(*) from houston.title_requests"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn title_falls_back_to_the_first_words() {
    let houston = TestHouston::start();
    let model =
        ModelServer::start(
            |call: &Call| {
                if names(call) { Reply::text("?").fault(Fault::EndEarly(0)) } else { answer() }
            },
        )
        .await
        .unwrap();
    let _worker = worker(&houston, &model.url());
    let goal = goal_without_title(&houston, "Ada").await;
    let first = "Where shall we stay when we are in Tokyo in the spring of next year?";
    post_all(&houston, &goal, &[first, "two", "three"]).await;
    assert_eq!(wait_for_title(&houston, &goal).await, "Where shall we stay when we are in Tokyo in the…");
}
