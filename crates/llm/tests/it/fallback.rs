//! Several guarded models against servers that fail in different ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use houston_domain::clock::SystemClock;
use houston_domain::model::ModelErrorCode as Code;
use houston_llm::{
    BreakerPolicy, BreakerState, Candidate, Choice, Description, Event, Fallback, Guards, Model,
    RetryBudgetPolicy, RetryPolicy, Secret, Strategy, Timeouts, connect,
};

use crate::caller::{QUICK, call, http};
use crate::server::{Connection, server};

/// Retries without delay, so that tests wait for time-outs only.
const ONCE: RetryPolicy =
    RetryPolicy { retries: 1, delay: Duration::from_millis(1), longest_wait: Duration::from_millis(1) };

fn guards(min_calls: u64) -> Guards {
    let breaker = BreakerPolicy { min_calls, ..BreakerPolicy::default() };
    Guards::new(
        breaker,
        RetryBudgetPolicy { floor: 1000, ..RetryBudgetPolicy::default() },
        Arc::new(SystemClock),
        Arc::default(),
    )
}

/// A server with its number of requests, and a guarded model that calls it.
struct Peer {
    model: Arc<dyn Model>,
    requests: Arc<AtomicUsize>,
}

impl Peer {
    fn new(
        guards: &Guards,
        provider: &str,
        key: &str,
        serve: impl Fn(&mut Connection) + Send + Sync + Clone + 'static,
    ) -> Self {
        Self::within(Timeouts::default(), (guards, provider, key), serve)
    }

    fn within(
        timeouts: Timeouts,
        (guards, provider, key): (&Guards, &str, &str),
        serve: impl Fn(&mut Connection) + Send + Sync + Clone + 'static,
    ) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        let (base, _) = server(move |mut connection| {
            count.fetch_add(1, Ordering::Relaxed);
            serve(&mut connection);
        });
        let choice =
            Choice { base_url: Some(base), key: Some(Secret::new(key)), ..Choice::new(provider, "m") };
        let model = connect(&choice, &http(timeouts), &|_| None).unwrap();
        Self { model: guards.guard(model, ONCE), requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn description(&self) -> Description {
        self.model.description().clone()
    }
}

fn fallback(strategy: Strategy, guards: &Guards, peers: &[&Peer]) -> Fallback {
    let candidate = |peer: &&Peer| {
        (
            Candidate::from_tables(peer.description(), &Default::default(), chrono::DateTime::UNIX_EPOCH),
            Arc::clone(&peer.model),
        )
    };
    Fallback::new(strategy, vec![], peers.iter().map(candidate).collect(), guards.latencies()).unwrap()
}

fn answers(connection: &mut Connection) {
    connection.begin();
    connection.event(r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#);
    connection.event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    connection.event("[DONE]");
    connection.send("0\r\n\r\n");
}

#[tokio::test]
async fn failures_before_the_answer_fall_back() {
    for (case, code, calls) in [
        ("429 Too Many Requests", Code::RateLimited, 2),
        ("503 Service Unavailable", Code::NetworkError, 2),
        ("500 Internal Server Error", Code::NetworkError, 2),
        ("402 Payment Required", Code::Unknown, 1),
        ("hangs", Code::Timeout, 1),
        ("closes", Code::NetworkError, 2),
        ("garbage", Code::InvalidResponse, 1),
    ] {
        let guards = guards(1000);
        let timeouts = if case == "hangs" { QUICK } else { Timeouts::default() };
        let first = Peer::within(timeouts, (&guards, "openai", "a"), move |connection| match case {
            "hangs" => connection.wait_for_close(),
            "closes" => {}
            "garbage" => {
                connection.begin();
                connection.event("{oops");
            }
            status => connection.answer(status, "", r#"{"error":{"message":"no"}}"#),
        });
        let second = Peer::new(&guards, "groq", "b", answers);
        let (events, error) = call(&fallback(Strategy::Fallback, &guards, &[&first, &second])).await;
        assert_eq!(error, None, "{case}");
        let Event::Fallback(switch) = &events[0] else { panic!("{case}: {events:?}") };
        assert_eq!(
            (switch.code, &switch.from, &switch.to),
            (code, &first.description(), &second.description())
        );
        assert_eq!(events[1], Event::Answering(Box::new(second.description())), "{case}");
        assert_eq!(events[2], Event::Text("hi".into()));
        assert_eq!((first.requests(), second.requests()), (calls, 1), "{case}");
    }
}

/// Regression: a hanging model was asked three times a turn, and the breaker needed more calls than one user makes.
#[tokio::test]
async fn hanging_model_is_asked_twice_and_then_left_alone() {
    for stalls_midway in [false, true] {
        let guards = guards(20);
        let silent = move |connection: &mut Connection| {
            if stalls_midway {
                connection.begin();
                connection.event(r#"{"choices":[{"index":0,"delta":{"content":"so"}}]}"#);
            }
            connection.wait_for_close();
        };
        let first = Peer::within(QUICK, (&guards, "openai", "a"), silent);
        let second = Peer::new(&guards, "groq", "b", answers);
        let model = fallback(Strategy::Fallback, &guards, &[&first, &second]);
        for _ in 0..5 {
            let error = call(&model).await.1;
            assert!(error.is_none() || stalls_midway, "{error:?}");
        }
        assert_eq!(first.requests(), 2, "one after the other; midway: {stalls_midway}");
    }
}

#[tokio::test]
async fn time_out_is_repeated_where_nothing_else_can_be_asked() {
    let guards = guards(1000);
    let only = Peer::within(QUICK, (&guards, "openai", "a"), |connection| connection.wait_for_close());
    let model = fallback(Strategy::Fallback, &guards, &[&only]);
    assert_eq!(call(&model).await.1.map(|error| error.code), Some(Code::Timeout));
    assert_eq!(only.requests(), 2);
}

#[tokio::test]
async fn configuration_errors_do_not_fall_back() {
    for (status, body, code) in [
        ("401 Unauthorized", "bad key", Code::AuthenticationError),
        ("400 Bad Request", "temperature must be a number", Code::Unknown),
        ("400 Bad Request", "maximum context length is 8192 tokens", Code::ContextLengthExceeded),
        ("404 Not Found", "model not found", Code::ModelNotFound),
    ] {
        let guards = guards(1000);
        let first = Peer::new(&guards, "openai", "a", move |connection| {
            connection.answer(status, "", &format!(r#"{{"error":{{"message":"{body}"}}}}"#));
        });
        let second = Peer::new(&guards, "groq", "b", answers);
        let (events, error) = call(&fallback(Strategy::Fallback, &guards, &[&first, &second])).await;
        assert_eq!((events.len(), error.unwrap().code), (0, code), "{body}");
        assert_eq!((first.requests(), second.requests()), (1, 0), "{body}");
    }
}

#[tokio::test]
async fn open_breaker_is_skipped_and_is_per_key() {
    let guards = guards(4);
    let busy = |connection: &mut Connection| connection.answer("503 Busy", "", "");
    let first = Peer::new(&guards, "openai", "key-of-one", busy);
    let second = Peer::new(&guards, "groq", "b", answers);
    let model = fallback(Strategy::Fallback, &guards, &[&first, &second]);
    for _ in 0..6 {
        assert_eq!(call(&model).await.1, None);
    }
    assert_eq!((first.requests(), second.requests()), (4, 6), "two calls with a retry each, then none");

    // The same provider and model with another key has its own breaker.
    let other = Peer::new(&guards, "openai", "key-of-another", answers);
    assert_eq!(call(&*other.model).await.1, None);
    let states: Vec<_> = guards
        .snapshot()
        .into_iter()
        .filter(|status| status.provider == "openai")
        .map(|status| (status.key.unwrap(), status.state))
        .collect();
    assert_eq!(states.len(), 2);
    assert!(states.contains(&(Secret::new("key-of-one").fingerprint().to_string(), BreakerState::Open)));
    assert!(
        states.contains(&(Secret::new("key-of-another").fingerprint().to_string(), BreakerState::Closed))
    );
}

#[tokio::test]
async fn fastest_strategy_uses_measured_latency() {
    let guards = guards(1000);
    let slow = Peer::new(&guards, "openai", "a", |connection| {
        std::thread::sleep(Duration::from_secs(3));
        answers(connection);
    });
    let fast = Peer::new(&guards, "groq", "b", answers);
    let model = fallback(Strategy::Fastest, &guards, &[&slow, &fast]);
    assert_eq!(guards.latencies().expected(&slow.description()), None);
    for _ in 0..6 {
        assert_eq!(call(&model).await.1, None);
    }
    assert_eq!((slow.requests(), fast.requests()), (1, 5), "each is tried once");
}

#[tokio::test]
async fn dropped_call_does_not_fall_back() {
    let guards = guards(1000);
    let first = Peer::new(&guards, "openai", "a", |connection| connection.wait_for_close());
    let second = Peer::new(&guards, "groq", "b", answers);
    let model = fallback(Strategy::Fallback, &guards, &[&first, &second]);
    let cut = tokio::time::timeout(Duration::from_millis(100), call(&model)).await;
    assert!(cut.is_err());
    assert_eq!(second.requests(), 0);
}
