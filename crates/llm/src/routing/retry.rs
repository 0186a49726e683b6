//! Immediate retries: repeats a failed call as long as nothing of its answer was passed on.
//!
//! Delayed retries across runs are stored in Postgres and handled elsewhere. An error is returned to them when the
//! requested wait is too long to hold the run, when the provider's retry budget is used up, or when the breaker is
//! open: breaker and budget exist to prevent immediate retries. A call that timed out is not repeated where another model
//! can be asked: the run has waited long enough.
//!
//! The wait is what the provider asks for, otherwise the policy's delay, plus up to 20 % jitter. Full jitter (from
//! zero on) is used by delayed retries only: here it would undercut what the provider asked for, and 1.5 s is short
//! enough to wait.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use houston_domain::model::{ModelError, ModelErrorCode};

use crate::model::EventStream;
use crate::routing::window::Window;

/// Shortest wait, also if the provider asks for none.
const SHORTEST_WAIT: Duration = Duration::from_millis(250);

/// Largest relative extension of a wait, so that calls that failed together are not repeated together.
const JITTER: f64 = 0.2;

/// How often and after which wait a call is repeated: `[retry.immediate]` in `jobs/orchestrator.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Most retries after the first attempt.
    pub retries: u32,
    /// Wait if the provider asks for none. Up to 20 % is added at random.
    pub delay: Duration,
    /// Longest wait requested by a provider for which the run is held. Longer waits become delayed retries.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    /// 2 retries after 1.5 s each; requested waits of up to 10 s are waited for.
    fn default() -> Self {
        Self { retries: 2, delay: Duration::from_millis(1500), longest_wait: Duration::from_secs(10) }
    }
}

impl RetryPolicy {
    /// The wait before the next attempt; `None` to give up.
    pub(crate) fn wait_before(
        &self,
        attempt: u32,
        error: &ModelError,
        has_fallback: bool,
    ) -> Option<Duration> {
        let requested = error.retry_after;
        if attempt > self.retries
            || !error.code.is_retryable()
            || error.breaker_open
            || has_fallback && error.code == ModelErrorCode::Timeout
            || requested.is_some_and(|requested| requested > self.longest_wait)
        {
            return None;
        }
        let wait = requested.map_or(self.delay, |requested| requested.max(SHORTEST_WAIT));
        Some(wait.mul_f64(rand::random_range(1.0..1.0 + JITTER)))
    }
}

/// Waits for the first event of an answer that is asked for.
pub(crate) async fn start(
    asked: impl Future<Output = Result<EventStream, ModelError>>,
) -> Result<EventStream, ModelError> {
    let mut rest = asked.await?;
    let first = rest.next().await.transpose()?;
    Ok(Box::pin(stream::iter(first.map(Ok)).chain(rest)))
}

// The retry budget of a provider limits immediate retries to a share of its calls, so that retries do not prolong an outage by
// adding load.

houston_domain::settings! {
    /// `[retry.budget]` in `jobs/orchestrator.toml`:
    ///
    /// ```toml
    /// window_ms = 10000
    /// percent = 10
    /// floor = 10
    /// ```
    pub struct RetryBudgetPolicy {
        /// Period over which calls and retries are counted, in ms.
        pub window_ms: u64 = 10_000;
        /// Largest share of a provider's calls that may be retries, in percent.
        pub percent: u64 = 10;
        /// Retries allowed within the period whatever the share.
        pub floor: u64 = 10;
    }
}

/// The retry budget of one provider, without I/O: `now` is the reading of any monotonic clock.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    policy: RetryBudgetPolicy,
    calls: Window,
}

impl RetryBudget {
    /// Creates a budget without any calls yet.
    pub fn new(policy: RetryBudgetPolicy) -> Self {
        Self { policy, calls: Window::new(Duration::from_millis(policy.window_ms)) }
    }

    /// Records a call that is not a retry.
    pub fn record_call(&mut self, now: Duration) {
        self.calls.add(now, false);
    }

    /// Takes one retry from the budget; `false` when the budget is used up.
    pub fn withdraw(&mut self, now: Duration) -> bool {
        let counts = self.calls.counts(now);
        // The retry counts as a call, too.
        let share = (counts.all + 1).saturating_mul(self.policy.percent) / 100;
        let granted = counts.marked < share.max(self.policy.floor);
        if granted {
            self.calls.add(now, true);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use chrono::DateTime;
    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use houston_domain::clock::ManualClock;
    use houston_domain::model::{ModelAnswer, ModelErrorCode as Code, StopReason, Usage};
    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::*;
    use crate::model::{Description, Event, Model, Request};
    use crate::routing::breaker::BreakerPolicy;
    use crate::routing::guard::Guards;

    type Script = Result<Vec<Result<Event, ModelError>>, ModelError>;

    /// Answers each call with the next entry of its script.
    struct Scripted(Description, Mutex<VecDeque<Script>>);

    impl Scripted {
        fn answering(script: Vec<Script>) -> Self {
            let description = Description {
                provider: "scripted".into(),
                model: "x".into(),
                simulated: true,
                supports_tools: true,
            };
            Self(description, Mutex::new(script.into()))
        }
    }

    impl Model for Scripted {
        fn description(&self) -> &Description {
            &self.0
        }

        fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
            let next = self.1.lock().unwrap().pop_front().expect("called more often than scripted");
            async move { next.map(|events| Box::pin(stream::iter(events)) as EventStream) }.boxed()
        }
    }

    /// Repeats the calls of a model as usual. No number of time-outs opens its breaker.
    fn repeated(inner: Arc<Scripted>) -> Arc<dyn Model> {
        let breaker = BreakerPolicy { timeouts: u64::MAX, ..BreakerPolicy::default() };
        let clock = Arc::new(ManualClock::at(DateTime::UNIX_EPOCH));
        let guards = Guards::new(breaker, RetryBudgetPolicy::default(), clock, Arc::default());
        guards.guard(inner, RetryPolicy::default())
    }

    fn error(code: Code, retry_after: Option<u64>) -> ModelError {
        ModelError { retry_after: retry_after.map(Duration::from_millis), ..ModelError::new(code, "no") }
    }

    fn answer() -> Vec<Result<Event, ModelError>> {
        let turn = ModelAnswer {
            content: vec![],
            malformed: vec![],
            stop: StopReason::EndTurn,
            usage: Usage::default(),
        };
        vec![Ok(Event::Text("hi".into())), Ok(Event::Done(Box::new(turn)))]
    }

    /// The result, its duration, and the number of unused script entries.
    async fn run(
        script: Vec<Script>,
    ) -> (Result<Vec<Result<Event, ModelError>>, ModelError>, Duration, usize) {
        let inner = Arc::new(Scripted::answering(script));
        let model = repeated(inner.clone());
        let request =
            Request { system: &[], entries: &[], tools: &[], max_output_tokens: 1, ..Request::default() };
        let started = Instant::now();
        let result = match model.stream(&request).await {
            Ok(stream) => Ok(stream.collect().await),
            Err(error) => Err(error),
        };
        let left = inner.1.lock().unwrap().len();
        (result, started.elapsed(), left)
    }

    #[tokio::test(start_paused = true)]
    async fn failed_calls_are_retried_until_an_answer_starts() {
        let script = vec![
            Err(error(Code::NetworkError, None)),
            Ok(vec![Err(error(Code::RateLimited, Some(4000)))]),
            Ok(answer()),
        ];
        let (result, took, _) = run(script).await;
        assert_eq!(result, Ok(answer()));
        let (least, most) = (Duration::from_millis(5500), Duration::from_millis(5500 * 12 / 10 + 2));
        assert!(took >= least && took <= most, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn call_fails_after_two_retries() {
        let refusal = || Err(error(Code::Timeout, None));
        let (result, _, left) = run(vec![refusal(), refusal(), refusal(), Ok(answer())]).await;
        assert_eq!((result.unwrap_err().code, left), (Code::Timeout, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn permanent_errors_and_started_answers_are_not_retried() {
        for code in [
            Code::AuthenticationError,
            Code::ContextLengthExceeded,
            Code::ModelNotFound,
            Code::InvalidResponse,
            Code::ProviderNotConfigured,
            Code::Unknown,
        ] {
            let (result, took, left) = run(vec![Err(error(code, Some(10))), Ok(answer())]).await;
            assert_eq!((result.unwrap_err().code, took, left), (code, Duration::ZERO, 1));
        }
        let broken = vec![Ok(Event::Text("h".into())), Err(error(Code::NetworkError, None))];
        let (result, _, left) = run(vec![Ok(broken.clone()), Ok(answer())]).await;
        assert_eq!((result, left), (Ok(broken), 1));
    }

    /// What a provider asks for is a wait, not work; the delay of ours and a silence are no such thing.
    #[tokio::test(start_paused = true)]
    async fn only_waits_that_a_provider_asked_for_are_noted() {
        for (failure, least) in [
            (error(Code::RateLimited, Some(4000)), 4000),
            (error(Code::RateLimited, None), 0),
            (error(Code::Timeout, None), 0),
        ] {
            let inner = Scripted::answering(vec![Err(failure), Ok(answer())]);
            let model = repeated(Arc::new(inner));
            let waited = std::sync::atomic::AtomicU64::new(0);
            let request = Request { waited_ms: Some(&waited), ..Request::default() };
            assert!(model.stream(&request).await.is_ok());
            let noted = waited.into_inner();
            assert!((least..=least * 12 / 10).contains(&noted), "{noted} of {least}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_out_is_left_to_the_fallback_if_there_is_one() {
        for (has_fallback, calls) in [(true, 1), (false, 2)] {
            let inner = Arc::new(Scripted::answering(vec![Err(error(Code::Timeout, None)), Ok(answer())]));
            let model = repeated(inner.clone());
            let request = Request { has_fallback, ..Request::default() };
            assert_eq!(model.stream(&request).await.is_err(), has_fallback);
            assert_eq!(2 - inner.1.lock().unwrap().len(), calls);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_retry_delay_is_returned_to_the_caller() {
        let (result, took, left) = run(vec![Err(error(Code::RateLimited, Some(11_000))), Ok(answer())]).await;
        let error = result.unwrap_err();
        assert_eq!((error.retry_after, took, left), (Some(Duration::from_secs(11)), Duration::ZERO, 1));
    }

    #[test]
    fn retry_budget_is_the_floor_or_ten_percent() {
        let mut budget = RetryBudget::new(RetryBudgetPolicy::default());
        let now = Duration::from_secs(100);
        budget.record_call(now);
        assert_eq!((0..50).filter(|_| budget.withdraw(now)).count(), 10, "the floor applies");
        assert!(
            budget.withdraw(now + Duration::from_secs(11)),
            "retries are available again after the window"
        );
        let now = Duration::from_secs(200);
        (0..900).for_each(|_| budget.record_call(now));
        assert_eq!((0..500).filter(|_| budget.withdraw(now)).count(), 100, "10 % of 1000 calls");
    }

    proptest! {
        #[test]
        fn retries_never_exceed_the_budget(
            steps in proptest::collection::vec((0..50u64, 0..4u8), 1..300)
        ) {
            let mut budget = RetryBudget::new(RetryBudgetPolicy::default());
            let (mut now, mut log) = (0, Vec::new());
            for (step, retries) in steps {
                now += step;
                budget.record_call(Duration::from_millis(now));
                log.push((now, false));
                for _ in 0..retries {
                    if budget.withdraw(Duration::from_millis(now)) {
                        log.push((now, true));
                    }
                }
                let recent = || log.iter().rev().take_while(|(at, _)| now - at < 9_000);
                let (all, marked) = (recent().count(), recent().filter(|(_, retry)| *retry).count());
                // Calls that left the window since may have justified retries that are still in it.
                let before = log.iter().filter(|(at, _)| now - at < 20_000).count();
                prop_assert!(marked <= 10.max(before / 10), "{marked} of {all}");
            }
        }
    }
}
