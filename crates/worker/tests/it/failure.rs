//! Failing models behind a real HTTP client: how often they are called, and what the user reads.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::clock::SystemClock;
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::Event;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::message::{Message, MessageStatus, Source};
use houston_domain::run::RunStatus;
use houston_llm::{
    BreakerPolicy, Choice, Guards, Http, Model, RetryBudgetPolicy, RetryPolicy, Secret, Timeouts,
    Unavailable, connect, parse_choice,
};
use houston_testkit::model_server::script::{after_faults, always, in_turn};
use houston_testkit::model_server::{Fault, ModelServer, Reply};
use serde_json::{Value, json};

use crate::cluster::{TestCluster, assert_status, eventually};

/// Two immediate retries as in `jobs/`, but without a delay.
const AT_ONCE: RetryPolicy =
    RetryPolicy { retries: 2, delay: Duration::from_millis(5), longest_wait: Duration::from_secs(1) };
/// A retry budget that no test uses up.
const PLENTY: RetryBudgetPolicy = RetryBudgetPolicy { window_ms: 10_000, percent: 100, floor: 1000 };
/// A breaker that never opens.
const NEVER: BreakerPolicy = BreakerPolicy {
    window_ms: 10_000,
    min_calls: u64::MAX,
    failed_percent: 50,
    open_ms: 30_000,
    probe_every_ms: 1000,
    timeouts: u64::MAX,
    max_open_ms: 0,
};

/// A model of `server` with retries, budget and breaker, as a process builds it.
fn model(server: &ModelServer, first_byte: Duration) -> Arc<dyn Model> {
    Guards::new(NEVER, PLENTY, Arc::new(SystemClock), Arc::default())
        .guard(direct(server, first_byte), AT_ONCE)
}

fn direct(server: &ModelServer, first_byte: Duration) -> Arc<dyn Model> {
    patient(server, Timeouts { first_byte, ..Timeouts::default() })
}

/// The model of `server`, without retries within a call.
pub(crate) fn patient(server: &ModelServer, timeouts: Timeouts) -> Arc<dyn Model> {
    let http = Http::new(timeouts, &|_| None).unwrap();
    let choice = Choice {
        base_url: Some(server.url()),
        key: Some(Secret::new("sk-test")),
        ..Choice::new("openai", "scripted")
    };
    connect(&choice, &http, &|_| None).unwrap()
}

/// How a call fails: by a server's reply, or before it is sent.
enum Cause {
    Server(Reply, Duration),
    Nobody(Arc<dyn Model>),
    Simulated(&'static str),
}

const SLOW: Duration = Duration::from_secs(30);

fn refused(status: u16, code: &str) -> Cause {
    let body = json!({"error": {"message": "no", "type": "invalid_request_error", "code": code}});
    Cause::Server(Reply::status(status).body(body.to_string()), SLOW)
}

fn unavailable(wanted: &str) -> Cause {
    let http = Http::new(Timeouts::default(), &|_| None).unwrap();
    let error = parse_choice(wanted).and_then(|choice| connect(&choice, &http, &|_| None)).err().unwrap();
    let (provider, name) = wanted.split_once('/').unwrap();
    Cause::Nobody(Arc::new(Unavailable::new(Choice::new(provider, name).description(), error)))
}

/// (Error code, cause, calls of one attempt, attempts of the run).
fn causes() -> Vec<(&'static str, Cause, usize, i32)> {
    let garbage = Reply::text("never read").fault(Fault::Garbage(0));
    vec![
        ("PROVIDER_NOT_CONFIGURED", unavailable("openai/gpt"), 0, 1),
        ("PROVIDER_NOT_SUPPORTED", unavailable("opnai/gpt"), 0, 1),
        ("AUTHENTICATION_ERROR", Cause::Server(Reply::status(401), SLOW), 1, 1),
        ("RATE_LIMITED", Cause::Server(Reply::status(429), SLOW), 3, 6),
        ("MODEL_NOT_FOUND", Cause::Server(Reply::status(404), SLOW), 1, 1),
        ("CONTEXT_LENGTH_EXCEEDED", refused(400, "context_length_exceeded"), 1, 1),
        ("NETWORK_ERROR", Cause::Server(Reply::status(503), SLOW), 3, 4),
        ("TIMEOUT", Cause::Server(Reply::hang(), Duration::from_secs(1)), 3, 4),
        ("INVALID_RESPONSE", Cause::Server(garbage, SLOW), 1, 3),
        // A refused request is not retried; an unknown error may pass.
        ("UNKNOWN", refused(400, "invalid_value"), 1, 1),
        ("UNKNOWN", Cause::Simulated("/sim fail=unknown"), 0, 3),
    ]
}

async fn errors(cluster: &TestCluster, goal: AgentableId) -> Vec<Message> {
    let messages = cluster.requests().messages(goal, None, 1000).await.unwrap();
    messages.into_iter().filter(|message| message.source == Source::Error).collect()
}

/// The states of the run's error message, one after the other.
async fn states(cluster: &TestCluster, goal: AgentableId) -> Vec<Value> {
    let shown = |event| match event {
        Event::ErrorShown { metadata, .. } => Some(metadata),
        _ => None,
    };
    cluster.events(goal).await.into_iter().filter_map(|committed| shown(committed.event)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_code_has_its_attempts_and_one_final_message() {
    let cluster = TestCluster::start().await;
    for (code, cause, calls, attempts) in causes() {
        let goal = cluster.new_goal().await;
        let mut server = None;
        let (model, text) = match cause {
            Cause::Server(reply, first_byte) => {
                let started = ModelServer::start(always(reply)).await.unwrap();
                let model = model(&started, first_byte);
                server = Some(started);
                (model, "hello")
            }
            Cause::Nobody(model) => (model, "hello"),
            Cause::Simulated(orders) => (crate::workers::simulated(), orders),
        };
        let worker = cluster.worker_with(model, vec![]);
        let posted = cluster.post(goal, text).await;
        let run = cluster.wait_for_end(posted.run).await;
        assert_status(&run, RunStatus::Failed);
        assert_eq!((run.error_code(), run.attempt), (Some(code), attempts), "{code}");
        if let Some(server) = server {
            let asked = server.journal().calls();
            assert_eq!(asked, calls * usize::try_from(attempts).unwrap(), "{code}: calls");
        }
        assert_eq!(cluster.message(posted.id).await.status, Some(MessageStatus::Failed), "{code}");

        let told = errors(&cluster, goal).await;
        assert_eq!(told.len(), 1, "{code}: {told:?}");
        assert_eq!(told[0].id, ErrorMessage::id_of(posted.run));
        assert!(told[0].content.starts_with("Failed permanently: "), "{}", told[0].content);
        let last = json!({"code": code, "retryable": false, "failed_permanently": true});
        assert_eq!(told[0].metadata, last, "{code}");
        let states = states(&cluster, goal).await;
        assert_eq!(states.len(), usize::try_from(attempts).unwrap(), "{code}: {states:?}");
        for (state, attempt) in states.iter().zip(1..attempts) {
            assert_eq!(
                (&state["retryable"], &state["attempt"], &state["of"]),
                (&json!(true), &json!(attempt), &json!(attempts - 1)),
                "{code}"
            );
            assert!(state["retry_at"].is_string(), "{state}");
        }
        assert_eq!(states.last(), Some(&last));
        cluster.history(goal).await;
        worker.drain().await;
    }
}

pub(crate) fn says(text: &str) -> Reply {
    Reply::tool("send_message", json!({"content": text}))
}

#[tokio::test(flavor = "multi_thread")]
async fn successful_retry_settles_the_error_message() {
    let cluster = TestCluster::start().await;
    let server =
        ModelServer::start(after_faults(6, Reply::status(429), always(says("Hello!")))).await.unwrap();
    let worker = cluster.worker_with(model(&server, SLOW), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_status(&run, RunStatus::MessageSent);
    assert_eq!((run.attempt, server.journal().calls(), run.error_code()), (3, 7, None));
    let told = errors(&cluster, cluster.goal).await;
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].metadata,
        json!({"code": "RATE_LIMITED", "retryable": false, "attempt": 2, "of": 5, "resolved": true})
    );
    let states = states(&cluster, cluster.goal).await;
    assert_eq!(states.len(), 3, "{states:?}");
    assert_eq!(states[0]["since"], states[1]["since"], "since the first failure");
    assert_eq!(cluster.agent_messages(cluster.goal).await, ["Hello!"]);
    // A run that never failed has no error message.
    let next = cluster.post(cluster.goal, "and again").await;
    cluster.wait_for_end(next.run).await;
    assert_eq!(errors(&cluster, cluster.goal).await.len(), 1);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_answer_is_not_retried_within_the_same_attempt() {
    let cluster = TestCluster::start().await;
    for fault in [Fault::CutAfterChunks(3), Fault::ErrorEvent(3), Fault::EndEarly(3)] {
        let goal = cluster.new_goal().await;
        let whole = says("Hello, dear reader!").in_pieces(6);
        let replies = in_turn([whole.clone().fault(fault), whole]);
        let server = ModelServer::start(replies).await.unwrap();
        let worker = cluster.worker_with(model(&server, SLOW), vec![]);
        let posted = cluster.post(goal, "hello").await;
        let run = cluster.wait_for_end(posted.run).await;
        assert_status(&run, RunStatus::MessageSent);
        // One call per attempt: once text was streamed, the retry is a new attempt.
        assert_eq!((server.journal().calls(), run.attempt), (2, 2), "{fault:?}");
        assert_eq!(cluster.agent_messages(goal).await, ["Hello, dear reader!"]);
        let events = cluster.events(goal).await;
        let at = |is: fn(&Event) -> bool| events.iter().position(|event| is(&event.event));
        let scheduled = at(|event| matches!(event, Event::RetryScheduled { .. }));
        let sent = at(|event| matches!(event, Event::MessageSent { .. }));
        assert!(scheduled.is_some() && scheduled < sent, "{events:?}");
        cluster.history(goal).await;
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_waits_at_least_as_long_as_the_provider_asked() {
    let cluster = TestCluster::start().await;
    // Longer than the wait within a call and the longest delay of a run in this test.
    let busy = Reply::status(429).header("retry-after", "2");
    let server = ModelServer::start(in_turn([busy, says("Now.")])).await.unwrap();
    let worker = cluster.worker_with(model(&server, SLOW), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    let run = cluster.wait_for_end(posted.run).await;
    assert_eq!((run.status, run.attempt), (RunStatus::MessageSent, 2));
    let calls = server.journal().exchanges();
    assert_eq!(calls.len(), 2);
    assert!(calls[1].at - calls[0].at >= Duration::from_secs(2), "{:?}", calls[1].at - calls[0].at);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_stops_its_retry_countdown() {
    let cluster = TestCluster::start().await;
    let busy = Reply::status(429).header("retry-after", "600");
    let server = ModelServer::start(always(busy)).await.unwrap();
    let worker = cluster.worker_with(model(&server, SLOW), vec![]);
    let posted = cluster.post(cluster.goal, "hello").await;
    waits(&cluster, posted.run).await;
    assert_eq!(errors(&cluster, cluster.goal).await[0].metadata["retryable"], true);
    cluster.requests().cancel_run(posted.run).await.unwrap();
    assert_status(&cluster.wait_for_end(posted.run).await, RunStatus::Cancelled);
    assert_eq!(
        errors(&cluster, cluster.goal).await[0].metadata,
        json!({"code": "RATE_LIMITED", "retryable": false, "attempt": 1, "of": 5, "resolved": false})
    );
    worker.drain().await;
}

async fn waits(cluster: &TestCluster, run: RunId) {
    eventually("the run waits for its next attempt", || async {
        (cluster.requests().run(run).await.ok()?.status == RunStatus::Retrying).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outage_causes_few_calls_and_uses_up_no_attempt() {
    const RUNS: usize = 200;
    let cluster = TestCluster::start().await;
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let server = ModelServer::start(move |_| {
        if is_broken.load(std::sync::atomic::Ordering::Relaxed) { Reply::status(503) } else { says("Hi.") }
    })
    .await
    .unwrap();
    let policy = BreakerPolicy { open_ms: 1000, probe_every_ms: 200, ..BreakerPolicy::default() };
    let guards = Guards::new(policy, RetryBudgetPolicy::default(), Arc::new(SystemClock), Arc::default());
    let worker = cluster.worker_with(guards.guard(direct(&server, SLOW), AT_ONCE), vec![]);
    let mut posts = Vec::new();
    for _ in 0..RUNS {
        let goal = cluster.new_goal().await;
        posts.push((goal, cluster.post(goal, "hello").await));
    }
    // The outage lasts until each run has been affected.
    for (_, posted) in &posts {
        eventually("the run meets the outage", || async {
            let run = cluster.requests().run(posted.run).await.ok()?;
            run.error.is_some().then_some(())
        })
        .await;
    }
    let calls = server.journal().calls();
    assert!(calls <= RUNS * 6 / 5, "{calls} calls of {RUNS} runs");
    println!("outage: {calls} calls of {RUNS} runs, {:.2} a run", calls as f64 / RUNS as f64);
    broken.store(false, std::sync::atomic::Ordering::Relaxed);

    let mut attempts = 0;
    for (goal, posted) in &posts {
        let run = cluster.wait_for_end(posted.run).await;
        assert_status(&run, RunStatus::MessageSent);
        attempts += run.attempt;
        for error in errors(&cluster, *goal).await {
            assert_eq!(error.metadata["resolved"], true, "{error:?}");
        }
    }
    let all = server.journal().calls();
    println!("all: {all} calls of {RUNS} runs, {attempts} attempts");
    assert!(guards.snapshot().iter().all(|status| status.provider == "openai"));
    worker.drain().await;
}
