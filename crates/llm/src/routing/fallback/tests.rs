use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use houston_domain::model::{ModelAnswer, StopReason, Usage};

use super::*;
use crate::capabilities::Capabilities;
use crate::routing::router::Rates;

/// Behaviour a scripted model reacts to a call.
#[derive(Clone)]
enum Behaviour {
    Answers,
    Fails(ModelError),
    BreaksOff,
}

struct Scripted {
    description: Description,
    behaviour: Mutex<Behaviour>,
    calls: AtomicUsize,
}

impl Scripted {
    fn new(provider: &str, behaviour: Behaviour) -> Arc<Self> {
        let description = Description {
            provider: provider.into(),
            model: "m".into(),
            simulated: false,
            supports_tools: true,
        };
        Arc::new(Self { description, behaviour: Mutex::new(behaviour), calls: AtomicUsize::new(0) })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Model for Scripted {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let turn = ModelAnswer {
            content: vec![],
            malformed: vec![],
            stop: StopReason::EndTurn,
            usage: Usage::default(),
        };
        let text = Ok(Event::Text(self.description.provider.clone()));
        let events = match self.behaviour.lock().unwrap().clone() {
            Behaviour::Answers => vec![text, Ok(Event::Done(Box::new(turn)))],
            Behaviour::BreaksOff => vec![text, Err(ModelError::new(Code::NetworkError, "cut"))],
            Behaviour::Fails(error) => return async { Err(error) }.boxed(),
        };
        async move { Ok(Box::pin(stream::iter(events)) as EventStream) }.boxed()
    }
}

fn error(code: Code) -> ModelError {
    ModelError::new(code, "a: no")
}

fn fallback(models: &[&Arc<Scripted>]) -> Fallback {
    let models = models.iter().map(|model| {
        let candidate = Candidate {
            description: model.description.clone(),
            capabilities: Capabilities::default(),
            rates: None,
            quality: 50,
        };
        (candidate, Arc::clone(*model) as Arc<dyn Model>)
    });
    Fallback::new(Strategy::Fallback, vec![], models.collect(), Latencies::default()).unwrap()
}

/// The events of one call, and the error it ended with.
fn ask(model: &dyn Model, request: &Request<'_>) -> (Vec<Event>, Option<ModelError>) {
    let call = async {
        let mut stream = match model.stream(request).await {
            Ok(stream) => stream,
            Err(error) => return (vec![], Some(error)),
        };
        let mut events = Vec::new();
        while let Some(item) = stream.next().await {
            match item {
                Ok(event) => events.push(event),
                Err(error) => return (events, Some(error)),
            }
        }
        (events, None)
    };
    call.now_or_never().unwrap()
}

#[test]
fn fallback_depends_on_the_error() {
    let with = |code, status| ModelError { status: Some(status), ..error(code) };
    for (error, mends) in [
        (error(Code::Timeout), true),
        (error(Code::RateLimited), true),
        (error(Code::NetworkError), true),
        (with(Code::NetworkError, 503), true),
        (error(Code::Unknown), true),
        (with(Code::Unknown, 402), true),
        (with(Code::Unknown, 429), true),
        (error(Code::InvalidResponse), true),
        (with(Code::Unknown, 400), false),
        (with(Code::Unknown, 422), false),
        (with(Code::InvalidResponse, 400), false),
        (with(Code::AuthenticationError, 401), false),
        (with(Code::ModelNotFound, 404), false),
        (with(Code::ContextLengthExceeded, 400), false),
        (error(Code::ProviderNotConfigured), false),
        (error(Code::ProviderNotSupported), false),
    ] {
        let (a, b) =
            (Scripted::new("a", Behaviour::Fails(error.clone())), Scripted::new("b", Behaviour::Answers));
        let (events, failure) = ask(&fallback(&[&a, &b]), &Request::default());
        assert_eq!((a.calls(), b.calls()), (1, usize::from(mends)), "{error:?}");
        if mends {
            assert_eq!(failure, None);
            let switch = Switch {
                from: a.description.clone(),
                to: b.description.clone(),
                code: error.code,
                message: "a: no".into(),
            };
            assert_eq!(events[0], Event::Fallback(Box::new(switch)));
            assert_eq!(events[1], Event::Answering(Box::new(b.description.clone())));
            assert_eq!(events[2], Event::Text("b".into()));
        } else {
            assert_eq!(failure, Some(error), "the error is unchanged");
        }
    }
}

#[test]
fn answer_of_the_first_model_is_not_announced() {
    let (a, b) = (Scripted::new("a", Behaviour::Answers), Scripted::new("b", Behaviour::Answers));
    let model = fallback(&[&a, &b]);
    assert_eq!(model.description(), &a.description);
    let (events, failure) = ask(&model, &Request::default());
    assert_eq!((events.len(), &events[0], failure), (2, &Event::Text("a".into()), None));
    assert_eq!(b.calls(), 0);
}

#[test]
fn started_answer_is_not_continued_by_another_model() {
    let (a, b) = (Scripted::new("a", Behaviour::BreaksOff), Scripted::new("b", Behaviour::Answers));
    let (events, failure) = ask(&fallback(&[&a, &b]), &Request::default());
    assert_eq!((events, failure.unwrap().message.as_str()), (vec![Event::Text("a".into())], "cut"));
    assert_eq!(b.calls(), 0);
}

#[test]
fn combined_error_names_all_and_is_retryable_if_any_is() {
    let wait = |code, seconds, breaker_open| ModelError {
        retry_after: Some(Duration::from_secs(seconds)),
        breaker_open,
        ..error(code)
    };
    let a = Scripted::new("a", Behaviour::Fails(wait(Code::RateLimited, 30, true)));
    let b = Scripted::new(
        "b",
        Behaviour::Fails(ModelError { status: Some(502), ..error(Code::InvalidResponse) }),
    );
    let c = Scripted::new("c", Behaviour::Fails(wait(Code::NetworkError, 20, true)));
    let model = fallback(&[&a, &b, &c]);
    let failure = ask(&model, &Request::default()).1.unwrap();
    assert_eq!(
        failure.message,
        "a/m: RATE_LIMITED: no; b/m: INVALID_RESPONSE: a: no; c/m: NETWORK_ERROR: a: no"
    );
    assert_eq!(
        (failure.code, failure.retry_after, failure.breaker_open),
        (Code::RateLimited, Some(Duration::from_secs(20)), true),
        "all retryable errors came from open breakers: no attempt is counted"
    );

    *c.behaviour.lock().unwrap() = Behaviour::Fails(error(Code::Timeout));
    let failure = ask(&model, &Request::default()).1.unwrap();
    assert_eq!((failure.retry_after, failure.breaker_open), (None, false), "c may be called at once");

    *c.behaviour.lock().unwrap() = Behaviour::Fails(error(Code::AuthenticationError));
    let failure = ask(&model, &Request::default()).1.unwrap();
    assert_eq!(failure.code, Code::RateLimited, "a may recover");
    *a.behaviour.lock().unwrap() = Behaviour::Fails(error(Code::Unknown));
    let failure = ask(&model, &Request::default()).1.unwrap();
    assert_eq!(failure.code, Code::AuthenticationError, "the last error decides");
}

#[test]
fn combined_error_says_whether_any_model_was_called() {
    let message = format!("a: {} (TIMEOUT); next attempt at 09:00:30 UTC", ModelError::NOT_CALLED);
    let not_called = ModelError::new(Code::Timeout, message);
    for (other, none_was_called) in [(not_called.clone(), true), (error(Code::Timeout), false)] {
        let a = Scripted::new("a", Behaviour::Fails(not_called.clone()));
        let b = Scripted::new("b", Behaviour::Fails(other));
        let failure = ask(&fallback(&[&a, &b]), &Request::default()).1.unwrap();
        assert_eq!(ModelError::none_was_called(&failure.message), none_was_called, "{failure}");
    }
}

#[test]
fn models_with_too_small_a_window_are_skipped() {
    let (a, b) = (Scripted::new("a", Behaviour::Answers), Scripted::new("b", Behaviour::Answers));
    let mut model = fallback(&[&a, &b]);
    model.candidates[0].capabilities.context_window = Some(1000);
    let long = Request { input_tokens: Some(5000), ..Request::default() };
    let (events, _) = ask(&model, &long);
    assert_eq!(events[0], Event::Answering(Box::new(b.description.clone())));
    assert_eq!((a.calls(), b.calls()), (0, 1));

    *b.behaviour.lock().unwrap() = Behaviour::Fails(error(Code::RateLimited));
    let failure = ask(&model, &long).1.unwrap();
    assert_eq!(failure.code, Code::RateLimited);
    assert!(failure.message.contains("a/m: skipped: the conversation has about 5000"), "{failure}");

    model.candidates[1].capabilities.context_window = Some(4000);
    let failure = ask(&model, &long).1.unwrap();
    assert_eq!((failure.code, b.calls()), (Code::ContextLengthExceeded, 2), "no model is called");
    assert_eq!(
        failure.message,
        "a/m: skipped: the conversation has about 5000 tokens, the context window is 1000; b/m: skipped: the \
         conversation has about 5000 tokens, the context window is 4000"
    );
}

#[test]
fn tools_are_kept_for_the_model_that_answers() {
    let of = |provider: &str, supports_tools, price| {
        let model = Scripted::new(provider, Behaviour::Answers);
        let description = Description { supports_tools, ..model.description.clone() };
        let rates = Rates { input: price, output: price };
        let capabilities = Capabilities { tools: Some(supports_tools), ..Capabilities::default() };
        (Candidate { description, capabilities, rates: Some(rates), quality: 50 }, model as Arc<dyn Model>)
    };
    let chain = |models: Vec<(Candidate, Arc<dyn Model>)>| {
        Fallback::new(Strategy::Cheapest, vec![], models, Latencies::default()).unwrap()
    };
    let (one, two) = (rust_decimal::Decimal::ONE, rust_decimal::Decimal::TWO);
    // The cheapest has no tools: a request with tools goes to the next, and is prepared for that.
    let model = chain(vec![of("perplexity", false, one), of("groq", true, two)]);
    assert!(model.description().supports_tools);
    assert_eq!(model.description().provider, "groq");
    let plain = ask(&model, &Request::default()).0;
    assert!(plain.contains(&Event::Text("perplexity".into())), "{plain:?}");
    let none = chain(vec![of("perplexity", false, one)]);
    assert!(!none.description().supports_tools);
}

#[test]
fn models_to_avoid_are_asked_last() {
    let (a, b) = (Scripted::new("a", Behaviour::Answers), Scripted::new("b", Behaviour::Answers));
    let model = fallback(&[&a, &b]);
    let avoid = ["a/m".to_owned()];
    let request = Request { avoid: &avoid, ..Request::default() };
    let (events, _) = ask(&model, &request);
    assert_eq!(events[0], Event::Answering(Box::new(b.description.clone())));
    assert_eq!((a.calls(), b.calls()), (0, 1));
    *b.behaviour.lock().unwrap() = Behaviour::Fails(error(Code::NetworkError));
    assert_eq!(ask(&model, &request).1, None, "better than nothing");
    assert_eq!((a.calls(), b.calls()), (1, 2));
}
