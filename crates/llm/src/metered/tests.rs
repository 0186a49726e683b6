use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use futures_util::StreamExt as _;
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelAnswer, StopReason};
use houston_domain::step::ModelCall;

use super::*;
use crate::routing::fallback::Fallback;
use crate::routing::latency::Latencies;
use crate::routing::router::{Candidate, Strategy};

/// A model that sends these events, and then nothing more.
struct Scripted(Description, Vec<Result<Event, ModelError>>);

impl Model for Scripted {
    fn description(&self) -> &Description {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        let events = futures_util::stream::iter(self.1.clone()).chain(futures_util::stream::pending());
        Box::pin(async move { Ok(Box::pin(events) as EventStream) })
    }
}

fn description() -> Description {
    Description {
        provider: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
        simulated: false,
        supports_tools: true,
    }
}

/// What is entered of an answer with these events, `read` of which are read before it is dropped.
async fn entered(events: Vec<Result<Event, ModelError>>, read: usize) -> Vec<ModelCall> {
    let model = metered(metered(Arc::new(Scripted(description(), events))));
    let ledger = Ledger::default();
    let entries = [Entry::user(vec![Block::text("hello")])];
    let request =
        Request { entries: &entries, input_tokens: Some(700), ledger: Some(&ledger), ..Request::default() };
    let mut stream = model.stream(&request).await.unwrap();
    for _ in 0..read {
        stream.next().await;
    }
    assert!(ledger.is_empty() || read > 0, "an open answer is not entered");
    drop(stream);
    let at = "2026-11-28T12:00:00Z".parse().unwrap();
    ledger.take().into_iter().map(|used| used.call(2, at)).collect()
}

fn text(text: &str) -> Result<Event, ModelError> {
    Ok(Event::Text(text.to_owned()))
}

fn counted(input_tokens: u64, output_tokens: u64) -> Result<Event, ModelError> {
    Ok(Event::Usage(Box::new(Usage { input_tokens, output_tokens, ..Usage::default() })))
}

fn failed(code: ModelErrorCode) -> Result<Event, ModelError> {
    Err(ModelError::new(code, "no"))
}

#[tokio::test]
async fn answer_is_entered_once_however_it_ends() {
    let answer = ModelAnswer {
        content: vec![],
        malformed: vec![],
        stop: StopReason::EndTurn,
        usage: Usage { input_tokens: 1_000, output_tokens: 20, ..Usage::default() },
    };
    let done = || Ok(Event::Done(Box::new(answer.clone())));
    // Events, how many are read, and tokens with whether they are estimated.
    let cases = [
        (vec![text("hi"), done()], 2, Some((1_000, 20, false))),
        (vec![text("hi"), done()], 1, Some((700, 1, true))),
        (vec![text("hi"), text(" there, you")], 2, Some((700, 4, true))),
        // Reported so far, and what was received since.
        (vec![counted(5_000, 1), text("hi")], 1, Some((5_000, 1, false))),
        (vec![counted(5_000, 1), text("twelve chars")], 1, Some((5_000, 3, true))),
        (vec![counted(5_000, 1), counted(0, 0), text("hi")], 1, Some((5_000, 1, false))),
        // The request was accepted.
        (vec![], 0, Some((700, 0, true))),
        (vec![failed(ModelErrorCode::Timeout)], 1, Some((700, 0, true))),
        (vec![text("hi"), failed(ModelErrorCode::NetworkError)], 2, Some((700, 1, true))),
        // Refused, or broken off before anything was received.
        (vec![failed(ModelErrorCode::NetworkError)], 1, None),
        (vec![failed(ModelErrorCode::RateLimited)], 1, None),
    ];
    for (events, read, expected) in cases {
        let said = format!("{events:?}, {read}");
        let calls = entered(events, read).await;
        let found: Vec<_> = calls
            .iter()
            .map(|call| (call.usage.input_tokens, call.usage.output_tokens, call.estimated))
            .collect();
        assert_eq!(found, Vec::from_iter(expected), "{said}");
        assert!(calls.iter().all(|call| call.usage.cost.is_some() && call.iteration == 2), "{said}");
    }
}

/// A model that does not answer, and says whether the provider has the request.
struct Silent(Description, bool);

impl Model for Silent {
    fn description(&self) -> &Description {
        &self.0
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        request.is_sent.unwrap().store(self.1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn request_that_was_sent_is_entered_when_nobody_waits() {
    for is_sent in [true, false] {
        let model = metered(Arc::new(Silent(description(), is_sent)));
        let ledger = Ledger::default();
        let request = Request { input_tokens: Some(700), ledger: Some(&ledger), ..Request::default() };
        let mut asking = model.stream(&request);
        assert!(futures_util::poll!(&mut asking).is_pending());
        assert!(ledger.is_empty());
        drop(asking);
        let at = "2026-11-28T12:00:00Z".parse().unwrap();
        let entered: Vec<_> =
            ledger.take().into_iter().map(|used| used.call(2, at).usage.input_tokens).collect();
        assert_eq!(entered, if is_sent { vec![700] } else { vec![] });
    }
}

#[test]
fn call_without_price_or_tokens_has_no_cost() {
    let ledger = Ledger::default();
    let of = |model: &str| Description { model: model.into(), ..description() };
    ledger.enter_lost(&of("of-my-own"), 10);
    ledger.enter_lost(&description(), 0);
    let at = "2026-11-28T12:00:00Z".parse().unwrap();
    let costs: Vec<_> = ledger.take().into_iter().map(|used| used.call(1, at).usage.cost).collect();
    assert_eq!(costs, [None, None]);
}

/// A model that fails after a while.
struct Slow(Description);

impl Model for Slow {
    fn description(&self) -> &Description {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            Err(ModelError::new(ModelErrorCode::NetworkError, "down"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_failed_model_is_not_the_fallbacks() {
    let answer = ModelAnswer {
        content: vec![],
        malformed: vec![],
        stop: StopReason::EndTurn,
        usage: Usage { input_tokens: 1_000, output_tokens: 20, ..Usage::default() },
    };
    let events = vec![text("hi"), Ok(Event::Done(Box::new(answer)))];
    let models: [Arc<dyn Model>; 2] = [
        Arc::new(Slow(Description { provider: "openai".into(), ..description() })),
        Arc::new(Scripted(description(), events)),
    ];
    let models = models.into_iter().map(|model| {
        let description = model.description().clone();
        (Candidate::from_tables(description, &BTreeMap::new(), DateTime::UNIX_EPOCH), model)
    });
    let chain = Fallback::new(Strategy::Fallback, vec![], models.collect(), Latencies::default()).unwrap();
    let ledger = Ledger::default();
    let entries = [Entry::user(vec![Block::text("hello")])];
    let request = Request { entries: &entries, ledger: Some(&ledger), ..Request::default() };
    let mut stream = chain.stream(&request).await.unwrap();
    while let Some(Ok(event)) = stream.next().await {
        if matches!(event, Event::Done(_)) {
            break;
        }
    }
    let calls: Vec<_> = ledger.take().into_iter().map(|used| used.call(1, DateTime::UNIX_EPOCH)).collect();
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(call.provider, "anthropic");
    assert!(call.timing.is_some_and(|timing| timing.first_event_ms == 0), "{call:?}");
}
