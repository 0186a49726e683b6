//! Titles that nobody gave: one after the third message, once, whoever dies; never over one that somebody gave.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use houston_testkit::model_server::{Call, Fault, Gate, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::house::{House, PATIENCE};

fn names(call: &Call) -> bool {
    call.system().contains("You name conversations")
}

fn answer() -> Reply {
    Reply::tool("send_message", json!({"content": "Good."}))
}

fn worker(house: &House, url: &str) -> Process {
    house.worker_with(&[
        ("HOUSTON_MODEL", "openai/scripted"),
        ("OPENAI_API_KEY", "sk-test"),
        ("OPENAI_BASE_URL", url),
        ("HOUSTON_ORCHESTRATOR__RETRY__IMMEDIATE__ATTEMPTS", "0"),
        // So that a title whose finder died is looked for soon.
        ("HOUSTON_ORCHESTRATOR__CONTEXT__TITLES__SWEEP_S", "1"),
        ("HOUSTON_ORCHESTRATOR__CONTEXT__TITLES__TIMEOUT_S", "2"),
    ])
}

/// A goal that nobody named.
async fn unnamed(house: &House, name: &str) -> String {
    let user = house.create("/v1/users", &format!("user {name}"), &json!({"name": name})).await;
    let goal = house.create("/v1/goals", &format!("goal {name}"), &json!({"user_id": user["id"]})).await;
    assert_eq!(goal["title"], "");
    goal["id"].as_str().unwrap().to_owned()
}

async fn say(house: &House, goal: &str, texts: &[&str]) -> Value {
    let mut last = Value::Null;
    for text in texts {
        last = house.post(goal, &format!("{goal} {text}"), text).await;
        assert_eq!(house.answered(&last).await["status"], "answered");
    }
    last
}

async fn titled(house: &House, goal: &str) -> String {
    let goal = house.until(&format!("/v1/goals/{goal}"), "a title", |goal| goal["title"] != "").await;
    goal["title"].as_str().unwrap().to_owned()
}

/// The titles that a stream tells from its beginning, and whether it is one that AG-UI clients accept.
async fn told(house: &House, goal: &str) -> Vec<String> {
    let (titles, running) = (Mutex::new(Vec::new()), Mutex::new(false));
    let watched = house
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
    assert_eq!(watched.types.last().map(String::as_str), Some("RUN_FINISHED"));
    titles.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_goal_without_a_title_gets_one_after_the_third_message_and_streams_tell() {
    let house = House::start();
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
    let _worker = worker(&house, &model.url());
    let goal = unnamed(&house, "Ada").await;
    say(&house, &goal, &["Hello", "We want to see whales"]).await;
    assert_eq!(house.get(&format!("/v1/goals/{goal}")).await["title"], "");
    let third = say(&house, &goal, &["Around the island"]).await;
    assert_eq!(titled(&house, &goal).await, "Whales around the island");
    assert_eq!(told(&house, &goal).await, ["Whales around the island"]);
    let calls = house.get(&format!("/v1/runs/{}/model_calls", third["run_id"].as_str().unwrap())).await;
    let counted =
        calls["data"].as_array().unwrap().iter().filter(|call| call["usage"]["input_tokens"] == 100);
    assert_eq!(counted.count(), 1, "{calls}");

    say(&house, &goal, &["And then?", "Home."]).await;
    let asked = asked.lock().unwrap().clone();
    let [asked] = &asked[..] else { panic!("asked once: {asked:?}") };
    for part in ["[user] Hello", "[agent] Good.", "[user] Around the island"] {
        assert!(asked.contains(part), "{asked}");
    }
    assert_eq!(told(&house, &goal).await.len(), 1);
    let last = model.journal().last().unwrap();
    assert!(String::from_utf8_lossy(&last.body).contains("Whales around the island"), "the prompt has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_that_somebody_gave_stays_and_kinds_that_find_none_want_one() {
    let house = House::start();
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
    let _worker = worker(&house, &model.url());
    let goal = house.goal("Learn to sail").await;
    say(&house, &goal, &["one", "two", "three", "four"]).await;
    assert_eq!(house.get(&format!("/v1/goals/{goal}")).await["title"], "Learn to sail");
    assert_eq!(house.sql("select count(*) from houston.title_requests"), "0");
    assert_eq!(titles.load(Ordering::Relaxed), 0);

    // A person names one while its title is being found.
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
    let _worker = worker(&house, &slow.url());
    let goal = unnamed(&house, "Bob").await;
    say(&house, &goal, &["one", "two", "three"]).await;
    assert!(slow.journal().wait_until(PATIENCE, |journal| journal.calls() == 4).await);
    house.sql("update houston.agentables set title = 'Mine' where title = ''");
    gate.open();
    let deadline = std::time::Instant::now() + PATIENCE;
    while house.sql("select count(*) from houston.title_requests") != "0" {
        assert!(std::time::Instant::now() < deadline, "the request never goes");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(house.get(&format!("/v1/goals/{goal}")).await["title"], "Mine");
    assert!(told(&house, &goal).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_finder_dies_gets_its_title_from_another_once() {
    let house = House::start();
    let gate = Gate::new();
    let held = gate.clone();
    let model = ModelServer::start(
        move |call: &Call| {
            if names(call) { Reply::text("Whales").held_by(&held) } else { answer() }
        },
    )
    .await
    .unwrap();
    let mut first = worker(&house, &model.url());
    let goal = unnamed(&house, "Ada").await;
    say(&house, &goal, &["one", "two", "three"]).await;
    assert!(
        model.journal().wait_until(PATIENCE, |journal| journal.calls() == 4).await,
        "a title is looked for"
    );
    first.kill().unwrap();
    gate.open();
    let _others = [worker(&house, &model.url()), worker(&house, &model.url())];
    assert_eq!(titled(&house, &goal).await, "Whales");
    assert_eq!(told(&house, &goal).await, ["Whales"]);
    assert_eq!(house.sql("select count(*) from houston.title_requests"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_no_model_finds_one_the_first_words_do() {
    let house = House::start();
    let model =
        ModelServer::start(
            |call: &Call| {
                if names(call) { Reply::text("?").fault(Fault::EndEarly(0)) } else { answer() }
            },
        )
        .await
        .unwrap();
    let _worker = worker(&house, &model.url());
    let goal = unnamed(&house, "Ada").await;
    let first = "Where shall we stay when we are in Tokyo in the spring of next year?";
    say(&house, &goal, &[first, "two", "three"]).await;
    assert_eq!(titled(&house, &goal).await, "Where shall we stay when we are in Tokyo in the…");
}
