//! Fallback between models behind a real HTTP client, driven by a worker: which model answers, and how it is reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use houston_domain::clock::SystemClock;
use houston_domain::event::Event;
use houston_domain::model::ModelError;
use houston_domain::run::RunStatus;
use houston_llm::{
    BreakerPolicy, Candidate, Choice, Description, EventStream, Fallback, Guards, Http, Model, Request,
    RetryBudgetPolicy, RetryPolicy, Secret, Strategy, Timeouts, connect,
};
use houston_testkit::model_server::script::always;
use houston_testkit::model_server::{Fault, ModelServer, Reply};
use serde_json::json;

use crate::cluster::{TestCluster, assert_status};

const AT_ONCE: RetryPolicy =
    RetryPolicy { retries: 1, delay: Duration::from_millis(5), longest_wait: Duration::from_millis(5) };

/// One model per server with fallback in this order; the first has a context window of so many tokens.
fn fallback(servers: &[(&str, &ModelServer)], window: Option<u64>) -> Arc<dyn Model> {
    fallback_within(Timeouts::default(), BreakerPolicy::default(), servers, window)
}

fn fallback_within(
    timeouts: Timeouts,
    breaker: BreakerPolicy,
    servers: &[(&str, &ModelServer)],
    window: Option<u64>,
) -> Arc<dyn Model> {
    let guards = Guards::new(breaker, RetryBudgetPolicy::default(), Arc::new(SystemClock), Arc::default());
    let http = Http::new(timeouts, &|_| None).unwrap();
    let mut models = Vec::new();
    for (provider, server) in servers {
        let choice = Choice {
            base_url: Some(server.url()),
            key: Some(Secret::new("sk-test")),
            ..Choice::new(*provider, "scripted")
        };
        let model = connect(&choice, &http, &|_| None).unwrap();
        let mut candidate = Candidate::from_tables(
            model.description().clone(),
            &BTreeMap::new(),
            chrono::DateTime::UNIX_EPOCH,
        );
        candidate.capabilities.context_window = window;
        models.push((candidate, guards.guard(model, AT_ONCE)));
    }
    Arc::new(Fallback::new(Strategy::Fallback, vec![], models, guards.latencies()).unwrap())
}

fn says(text: &str) -> Reply {
    Reply::tool("send_message", json!({"content": text})).usage(900, 20)
}

async fn fallbacks(cluster: &TestCluster) -> Vec<(String, String, String, String)> {
    let told = |event| match event {
        Event::ModelFallback { from, to, code, message } => Some((from, to, code, message)),
        _ => None,
    };
    cluster.events(cluster.goal).await.into_iter().filter_map(|committed| told(committed.event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn next_model_answers_and_the_stream_reports_it() {
    let cluster = TestCluster::start().await;
    let down = ModelServer::start(always(Reply::status(503))).await.unwrap();
    let up = ModelServer::start(always(says("Hello!"))).await.unwrap();
    let worker = cluster.worker_with(fallback(&[("openai", &down), ("groq", &up)], None), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(
        (run.attempt, run.model.as_deref()),
        (1, Some("groq/scripted")),
        "who answered is on the record"
    );
    assert_eq!((run.usage.input_tokens, run.usage.output_tokens), (900, 20));
    assert_eq!((down.journal().calls(), up.journal().calls()), (2, 1));
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Hello!"]);
    let [(from, to, code, message)] = &fallbacks(&cluster).await[..] else { panic!("one change, one event") };
    assert_eq!(
        (from.as_str(), to.as_str(), code.as_str()),
        ("openai/scripted", "groq/scripted", "NETWORK_ERROR")
    );
    assert!(message.starts_with("openai: "), "{message}");
    let events = cluster.events(cluster.goal).await;
    let at =
        |wanted: fn(&Event) -> bool| events.iter().position(|committed| wanted(&committed.event)).unwrap();
    let fell_back = at(|event| matches!(event, Event::ModelFallback { .. }));
    assert!(fell_back < at(|event| matches!(event, Event::MessageSent { .. })), "before what it explains");
    worker.drain().await;
}

/// Regression: each turn of a run asked the hanging model again, until `max_duration` although the other one answered.
#[tokio::test(flavor = "multi_thread")]
async fn model_that_hangs_is_asked_once_in_a_run() {
    let never = BreakerPolicy { timeouts: 1000, ..BreakerPolicy::default() };
    let quick =
        Timeouts { first_byte: Duration::from_secs(1), idle: Duration::from_secs(1), ..Timeouts::default() };
    for midway in [false, true] {
        let cluster = TestCluster::start().await;
        let fault = if midway { Fault::Stall(2) } else { Fault::Hang };
        let hanging = ModelServer::start(always(says("Hello, dear reader!").in_pieces(6).fault(fault)));
        let hanging = hanging.await.unwrap();
        let turns = [Reply::tool("list_notes", json!({})), Reply::tool("list_notes", json!({"limit": 5}))];
        let turns = turns.into_iter().chain([says("Hello!")]);
        let up = ModelServer::start(houston_testkit::model_server::script::in_turn(turns)).await.unwrap();
        let servers = [("openai", &hanging), ("groq", &up)];
        let worker = cluster.worker_with(fallback_within(quick, never, &servers, None), vec![]);
        let posted = cluster.post(cluster.goal, "hello").await;
        let run = cluster.wait_for_end(posted.run).await;
        assert_status(&run, RunStatus::MessageSent);
        let attempts = 1 + i32::from(midway);
        assert_eq!((run.attempt, hanging.journal().calls(), up.journal().calls()), (attempts, 1, 3));
        assert_eq!(fallbacks(&cluster).await.len(), usize::from(!midway), "reported once");
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_begun_by_one_model_is_not_continued_by_another() {
    let cluster = TestCluster::start().await;
    let cut = says("Hello, dear reader!").in_pieces(6).fault(Fault::CutAfterChunks(3));
    let first =
        ModelServer::start(houston_testkit::model_server::script::in_turn([cut, says("Hello again.")])).await;
    let first = first.unwrap();
    let second = ModelServer::start(always(says("I am another."))).await.unwrap();
    let worker = cluster.worker_with(fallback(&[("openai", &first), ("groq", &second)], None), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!((run.attempt, second.journal().calls()), (2, 0));
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Hello again."]);
    assert_eq!(fallbacks(&cluster).await, []);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn error_message_names_every_failed_model() {
    let cluster = TestCluster::start().await;
    let busy = ModelServer::start(always(Reply::status(429))).await.unwrap();
    let locked = ModelServer::start(always(Reply::status(401))).await.unwrap();
    let worker = cluster.worker_with(fallback(&[("openai", &busy), ("groq", &locked)], None), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    // The rate limit may pass, so it decides how often the run is retried.
    assert_eq!((run.error_code(), run.attempt), (Some("RATE_LIMITED"), 6));
    let told = run.error_message().unwrap();
    assert!(
        told.contains("openai/scripted: RATE_LIMITED")
            && told.contains("groq/scripted: AUTHENTICATION_ERROR")
    );
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_too_long_for_the_model_is_not_sent() {
    let cluster = TestCluster::start().await;
    let server = ModelServer::start(always(says("Hello!"))).await.unwrap();
    let worker = cluster.worker_with(fallback(&[("openai", &server)], Some(20_000)), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::MessageSent);
    let posted = cluster.post(cluster.goal, &"quite a lot to read ".repeat(6000)).await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!((run.error_code(), run.attempt), (Some("CONTEXT_LENGTH_EXCEEDED"), 1), "and not retried");
    assert_eq!(server.journal().calls(), 1);
    let told = run.error_message().unwrap();
    assert!(told.contains("openai/scripted: skipped: the conversation has about"), "{told}");
    worker.drain().await;
}

/// The cache key of a call, and its estimated input tokens.
type Asked = (Option<String>, Option<u64>);

/// Records the requests it gets.
struct Curious {
    inner: Arc<dyn Model>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Model for Curious {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        self.asked.lock().unwrap().push((request.cache_key.map(str::to_owned), request.input_tokens));
        self.inner.stream(request)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_has_a_cache_key_and_its_estimated_length() {
    let cluster = TestCluster::start().await;
    // With a tool: the second call of the run is estimated from the usage reported for the first.
    let server = ModelServer::start(|call: &houston_testkit::model_server::Call| {
        if call.has_tool_results() {
            says("Noted.")
        } else {
            Reply::tool("create_note", json!({"title": "t", "content": "c"})).usage(5000, 100)
        }
    })
    .await
    .unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let inner = fallback(&[("openai", &server)], None);
    let worker = cluster.worker_with(Arc::new(Curious { inner, asked: Arc::clone(&asked) }), vec![]);
    let first = cluster.post(cluster.goal, "note it").await;
    assert_status(&cluster.wait_for_end(first.run).await, RunStatus::MessageSent);
    let other = cluster.new_goal().await;
    let second = cluster.post(other, "note it").await;
    assert_status(&cluster.wait_for_end(second.run).await, RunStatus::MessageSent);
    worker.drain().await;

    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let [one, two, three, four] = &asked[..] else { panic!("{asked:?}") };
    assert!(one.0.is_some() && one.0 == two.0 && three.0 == four.0 && one.0 != three.0, "{asked:?}");
    assert!(!one.0.as_ref().unwrap().contains(&cluster.goal.0.simple().to_string()), "no id goes out");
    let (first, second) = (one.1.unwrap(), two.1.unwrap());
    assert!(first > 100 && first < 5000, "an estimate: {first}");
    assert!(second > 5100 && second < 5300, "what was reported, and the tool's result: {second}");
}
