//! Several models as one, behind a real HTTP client, driven by a worker: who answers, and what is told of it.

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

use crate::rig::{Rig, assert_status};

const AT_ONCE: RetryPolicy =
    RetryPolicy { retries: 1, delay: Duration::from_millis(5), longest_wait: Duration::from_millis(5) };

/// A model of each server, as one; the first reads so many tokens.
fn fallback(servers: &[(&str, &ModelServer)], window: Option<u64>) -> Arc<dyn Model> {
    let guards = Guards::new(BreakerPolicy::default(), RetryBudgetPolicy::default(), Arc::new(SystemClock));
    let http = Http::new(Timeouts::default(), &|_| None).unwrap();
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

async fn fallbacks(rig: &Rig) -> Vec<(String, String, String, String)> {
    let told = |event| match event {
        Event::ModelFallback { from, to, code, message } => Some((from, to, code, message)),
        _ => None,
    };
    rig.events(rig.goal).await.into_iter().filter_map(|committed| told(committed.event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_model_answers_and_the_stream_says_so() {
    let rig = Rig::start().await;
    let down = ModelServer::start(always(Reply::status(503))).await.unwrap();
    let up = ModelServer::start(always(says("Hello!"))).await.unwrap();
    let worker = rig.worker_with(fallback(&[("openai", &down), ("groq", &up)], None), vec![]);
    let posted = rig.post(rig.goal, "hello").await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!(
        (run.attempt, run.model.as_deref()),
        (1, Some("groq/scripted")),
        "who answered is on the record"
    );
    assert_eq!((run.usage.input_tokens, run.usage.output_tokens), (900, 20));
    assert_eq!((down.journal().calls(), up.journal().calls()), (2, 1));
    assert_eq!(rig.said(rig.goal).await, ["Hello!"]);
    let [(from, to, code, message)] = &fallbacks(&rig).await[..] else { panic!("one change, one event") };
    assert_eq!(
        (from.as_str(), to.as_str(), code.as_str()),
        ("openai/scripted", "groq/scripted", "NETWORK_ERROR")
    );
    assert!(message.starts_with("openai: "), "{message}");
    let events = rig.events(rig.goal).await;
    let at =
        |wanted: fn(&Event) -> bool| events.iter().position(|committed| wanted(&committed.event)).unwrap();
    let fell_back = at(|event| matches!(event, Event::ModelFallback { .. }));
    assert!(fell_back < at(|event| matches!(event, Event::MessageSent { .. })), "before what it explains");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_first_model_has_begun_no_other_ends() {
    let rig = Rig::start().await;
    let cut = says("Hello, dear reader!").in_pieces(6).fault(Fault::CutAfterChunks(3));
    let first =
        ModelServer::start(houston_testkit::model_server::script::in_turn([cut, says("Hello again.")])).await;
    let first = first.unwrap();
    let second = ModelServer::start(always(says("I am another."))).await.unwrap();
    let worker = rig.worker_with(fallback(&[("openai", &first), ("groq", &second)], None), vec![]);
    let posted = rig.post(rig.goal, "hello").await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!((run.attempt, second.journal().calls()), (2, 0));
    assert_eq!(rig.said(rig.goal).await, ["Hello again."]);
    assert_eq!(fallbacks(&rig).await, []);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_fail_the_user_reads_of_each() {
    let rig = Rig::start().await;
    let busy = ModelServer::start(always(Reply::status(429))).await.unwrap();
    let locked = ModelServer::start(always(Reply::status(401))).await.unwrap();
    let worker = rig.worker_with(fallback(&[("openai", &busy), ("groq", &locked)], None), vec![]);
    let posted = rig.post(rig.goal, "hello").await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    // The rate limit may pass: that decides how often it is tried.
    assert_eq!((run.error_code.as_deref(), run.attempt), (Some("RATE_LIMITED"), 6));
    let told = run.error_message.unwrap();
    assert!(
        told.contains("openai/scripted: RATE_LIMITED")
            && told.contains("groq/scripted: AUTHENTICATION_ERROR")
    );
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_too_long_for_its_model_is_not_sent() {
    let rig = Rig::start().await;
    let server = ModelServer::start(always(says("Hello!"))).await.unwrap();
    let worker = rig.worker_with(fallback(&[("openai", &server)], Some(20_000)), vec![]);
    let posted = rig.post(rig.goal, "hello").await;
    assert_status(&rig.ended(posted.run).await, RunStatus::MessageSent);
    let posted = rig.post(rig.goal, &"quite a lot to read ".repeat(6000)).await;
    let run = rig.ended(posted.run).await;
    assert_status(&run, RunStatus::Failed);
    assert_eq!(
        (run.error_code.as_deref(), run.attempt),
        (Some("CONTEXT_LENGTH_EXCEEDED"), 1),
        "and not retried"
    );
    assert_eq!(server.journal().calls(), 1);
    let told = run.error_message.unwrap();
    assert!(told.contains("openai/scripted: skipped: the conversation has about"), "{told}");
    worker.drain().await;
}

/// The cache key of a call, and its tokens.
type Asked = (Option<String>, Option<u64>);

/// Keeps what it is asked.
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
async fn each_call_says_where_its_beginning_is_warm_and_how_long_it_is() {
    let rig = Rig::start().await;
    // A tool first: the second call of the run knows what was reported of the first.
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
    let worker = rig.worker_with(Arc::new(Curious { inner, asked: Arc::clone(&asked) }), vec![]);
    let first = rig.post(rig.goal, "note it").await;
    assert_status(&rig.ended(first.run).await, RunStatus::MessageSent);
    let other = rig.new_goal().await;
    let second = rig.post(other, "note it").await;
    assert_status(&rig.ended(second.run).await, RunStatus::MessageSent);
    worker.drain().await;

    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let [one, two, three, four] = &asked[..] else { panic!("{asked:?}") };
    assert!(one.0.is_some() && one.0 == two.0 && three.0 == four.0 && one.0 != three.0, "{asked:?}");
    assert!(!one.0.as_ref().unwrap().contains(&rig.goal.0.simple().to_string()), "no id goes out");
    let (first, second) = (one.1.unwrap(), two.1.unwrap());
    assert!(first > 100 && first < 5000, "an estimate: {first}");
    assert!(second > 5100 && second < 5300, "what was reported, and the tool's result: {second}");
}
