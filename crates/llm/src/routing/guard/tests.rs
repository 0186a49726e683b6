use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use houston_domain::clock::ManualClock;
use houston_domain::model::{ModelAnswer, ModelErrorCode as Code, StopReason, Usage};

use super::*;

/// A provider whose behaviour can be changed.
struct Provider {
    description: Description,
    behaviour: Mutex<Behaviour>,
    calls: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Behaviour {
    Answers,
    Refuses(Code),
    BreaksOff,
}

impl Provider {
    fn new(behaviour: Behaviour) -> Arc<Self> {
        let description = Description {
            provider: "acme".into(),
            model: "m".into(),
            simulated: false,
            supports_tools: true,
        };
        Arc::new(Self { description, behaviour: Mutex::new(behaviour), calls: AtomicUsize::new(0) })
    }

    fn set_behaviour(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Model for Provider {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let turn = || ModelAnswer {
            content: vec![],
            malformed: vec![],
            stop: StopReason::EndTurn,
            usage: Usage::default(),
        };
        let text = Ok(Event::Text("hi".into()));
        let broken = Err(ModelError::new(Code::NetworkError, "cut"));
        let answer: Vec<Result<Event, ModelError>> = match *self.behaviour.lock().unwrap() {
            Behaviour::Refuses(code) => {
                return async move { Err(ModelError::new(code, "no")) }.boxed();
            }
            Behaviour::Answers => vec![text, Ok(Event::Done(Box::new(turn())))],
            Behaviour::BreaksOff => vec![text, broken],
        };
        async move { Ok(Box::pin(stream::iter(answer)) as EventStream) }.boxed()
    }
}

fn guards() -> Guards {
    let clock = Arc::new(ManualClock::at(DateTime::UNIX_EPOCH + TimeDelta::hours(9)));
    Guards::new(BreakerPolicy::default(), RetryBudgetPolicy::default(), clock, Arc::default())
}

async fn ask(model: &Arc<dyn Model>) -> Result<usize, ModelError> {
    let request =
        Request { system: &[], entries: &[], tools: &[], max_output_tokens: 1, ..Request::default() };
    let items: Vec<_> = model.stream(&request).await?.collect().await;
    items.into_iter().collect::<Result<Vec<_>, _>>().map(|events| events.len())
}

const ONCE: RetryPolicy =
    RetryPolicy { retries: 0, delay: Duration::from_millis(1500), longest_wait: Duration::from_secs(10) };

#[tokio::test(start_paused = true)]
async fn breaker_opens_for_failing_provider_and_closes_again() {
    let (guards, provider) = (guards(), Provider::new(Behaviour::Refuses(Code::RateLimited)));
    let model = guards.guard(provider.clone(), ONCE);
    // Another use case with the same model shares the breaker.
    let other = guards.guard(provider.clone(), ONCE);
    for _ in 0..10 {
        assert_eq!(ask(&model).await.unwrap_err().message, "no");
        assert_eq!(ask(&other).await.unwrap_err().message, "no");
    }
    let error = ask(&model).await.unwrap_err();
    assert_eq!(
        (error.code, error.breaker_open, error.retry_after),
        (Code::RateLimited, true, Some(Duration::from_secs(30)))
    );
    assert_eq!(
        error.message,
        "acme: not called because most recent calls failed (RATE_LIMITED); next attempt at \
         09:00:30 UTC"
    );
    assert!(ModelError::none_was_called(&error.message));
    assert_eq!(provider.calls(), 20, "the open breaker rejected the last call");
    let status = &guards.snapshot()[0];
    assert_eq!(
        (&*status.provider, &*status.model, status.state, status.failures),
        ("acme", "m", BreakerState::Open, 20)
    );

    provider.set_behaviour(Behaviour::Answers);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(ask(&other).await, Ok(2));
    assert_eq!(guards.snapshot()[0].state, BreakerState::Closed);
    assert_eq!(ask(&model).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn broken_answers_open_the_breaker_and_rejected_keys_do_not() {
    let (guards, provider) = (guards(), Provider::new(Behaviour::BreaksOff));
    let model = guards.guard(provider.clone(), ONCE);
    for _ in 0..9 {
        assert_eq!(ask(&model).await.unwrap_err().message, "cut");
    }
    assert_eq!(guards.snapshot()[0].state, BreakerState::Closed);
    ask(&model).await.unwrap_err();
    assert_eq!(guards.snapshot()[0].state, BreakerState::Open, "each call counted as a start and a failure");

    for code in [Code::AuthenticationError, Code::InvalidResponse, Code::Unknown, Code::ContextLengthExceeded]
    {
        let (guards, provider) = (self::guards(), Provider::new(Behaviour::Refuses(code)));
        let model = guards.guard(provider.clone(), ONCE);
        for _ in 0..50 {
            assert!(!ask(&model).await.unwrap_err().breaker_open, "{code:?}");
        }
        assert_eq!(provider.calls(), 50);
    }
}

#[tokio::test(start_paused = true)]
async fn retries_stop_at_an_empty_budget_or_open_breaker() {
    let breaker = BreakerPolicy { min_calls: u64::MAX, ..BreakerPolicy::default() };
    let clock = Arc::new(ManualClock::at(DateTime::UNIX_EPOCH));
    let guards = Guards::new(breaker, RetryBudgetPolicy::default(), clock, Arc::default());
    let provider = Provider::new(Behaviour::Refuses(Code::NetworkError));
    let model = guards.guard(provider.clone(), RetryPolicy::default());
    let all = futures_util::future::join_all((0..200).map(|_| ask(&model))).await;
    assert!(all.iter().all(|outcome| outcome.as_ref().is_err_and(|error| error.message == "no")));
    assert_eq!(provider.calls(), 222, "200 calls and 10 % retries");

    let (guards, provider) = (self::guards(), Provider::new(Behaviour::Refuses(Code::NetworkError)));
    let model = guards.guard(provider.clone(), RetryPolicy::default());
    let all = futures_util::future::join_all((0..100).map(|_| ask(&model))).await;
    let refused = all.into_iter().filter(|outcome| outcome.as_ref().is_err_and(|error| error.breaker_open));
    assert_eq!(
        (provider.calls(), refused.count()),
        (20, 90),
        "ten had no retry left, the breaker rejected the others"
    );
}
