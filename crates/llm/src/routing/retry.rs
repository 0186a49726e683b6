//! The first tier of retries: inside one call, before anybody has seen a token.
//!
//! The second tier waits across runs, in Postgres, and is not here: a wait that is too long for a held run is
//! handed up with the error. So is an error when the provider's budget of retries is used up, and one that came
//! from an open breaker: asking again at once is what both are there to prevent.
//!
//! The wait is what the provider asks for, or else the policy's delay, and up to a fifth more at random. Full
//! jitter, from nothing on, is the second tier's: here it would undercut what was asked for, and a delay of
//! 1.5 s is short enough that nobody waits for it in vain.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt as _};
use houston_domain::model::ModelError;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::guard::SharedBudget;
use crate::model::{Description, Event, EventStream, Model, Request};
use crate::secret::Fingerprint;

/// Shortest wait, for providers that ask for none at all.
const SHORTEST_WAIT: Duration = Duration::from_millis(250);

/// How much a wait may be stretched, so that calls that failed together do not return together.
const JITTER: f64 = 0.2;

/// How often, and after how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Calls after the first.
    pub retries: u32,
    /// The wait when the provider asks for none. Up to a fifth is added at random.
    pub delay: Duration,
    /// The longest wait asked for that is still waited out while the run is held.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    /// 2 retries, 1.5 s, at most 10 s (where the second tier begins).
    fn default() -> Self {
        Self { retries: 2, delay: Duration::from_millis(1500), longest_wait: Duration::from_secs(10) }
    }
}

/// A model that is asked again when a call failed for a reason that may pass, and nothing of its answer was
/// seen yet.
pub struct Retrying {
    inner: Arc<dyn Model>,
    policy: RetryPolicy,
    random: Mutex<StdRng>,
    budget: Option<SharedBudget>,
}

impl Retrying {
    /// Wraps `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Model>, policy: RetryPolicy) -> Self {
        Self { inner, policy, random: Mutex::new(StdRng::from_os_rng()), budget: None }
    }

    /// With the same waits each time, for tests.
    #[must_use]
    pub fn seeded(inner: Arc<dyn Model>, policy: RetryPolicy, seed: u64) -> Self {
        Self { inner, policy, random: Mutex::new(StdRng::seed_from_u64(seed)), budget: None }
    }

    /// The same, as long as `budget` lasts.
    #[must_use]
    pub(crate) fn within(self, budget: SharedBudget) -> Self {
        Self { budget: Some(budget), ..self }
    }

    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let mut attempt = 0;
        if let Some(budget) = &self.budget {
            budget.called();
        }
        loop {
            attempt += 1;
            let error = match begin(&*self.inner, request).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let Some(wait) = self.wait_before(attempt, &error) else { return Err(error) };
            if self.budget.as_ref().is_some_and(|budget| !budget.take()) {
                return Err(error);
            }
            tracing::warn!(
                model = %self.inner.description(),
                code = error.code.as_str(),
                attempt,
                wait_ms = wait.as_millis(),
                "model call failed, asking again"
            );
            tokio::time::sleep(wait).await;
        }
    }

    /// How long to wait before the next attempt; `None` to give up.
    fn wait_before(&self, attempt: u32, error: &ModelError) -> Option<Duration> {
        let asked = error.retry_after;
        if attempt > self.policy.retries
            || !error.code.is_retryable()
            || error.breaker_open
            || asked.is_some_and(|asked| asked > self.policy.longest_wait)
        {
            return None;
        }
        let wait = asked.map_or(self.policy.delay, |asked| asked.max(SHORTEST_WAIT));
        let stretch =
            self.random.lock().unwrap_or_else(PoisonError::into_inner).random_range(1.0..1.0 + JITTER);
        Some(wait.mul_f64(stretch))
    }
}

/// Asks, and waits for the first event.
pub(crate) async fn begin(model: &dyn Model, request: &Request<'_>) -> Result<EventStream, ModelError> {
    let mut rest = model.stream(request).await?;
    let first = rest.next().await.transpose()?;
    Ok(Box::pin(Begun { first, rest }))
}

/// A stream whose first event was already taken.
struct Begun {
    first: Option<Event>,
    rest: EventStream,
}

impl Stream for Begun {
    type Item = Result<Event, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.first.take() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None => self.rest.as_mut().poll_next(cx),
        }
    }
}

impl Model for Retrying {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn key(&self) -> Option<Fingerprint> {
        self.inner.key()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(self.ask(request))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures_util::{FutureExt as _, StreamExt as _, stream};
    use houston_domain::model::{ModelErrorCode as Code, ModelTurn, StopReason, Usage};
    use tokio::time::Instant;

    use super::*;

    type Script = Result<Vec<Result<Event, ModelError>>, ModelError>;

    /// Answers each call with the next line of its script.
    struct Scripted(Description, Mutex<VecDeque<Script>>);

    impl Model for Scripted {
        fn description(&self) -> &Description {
            &self.0
        }

        fn stream<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
            let next = self.1.lock().unwrap().pop_front().expect("asked too often");
            async move { next.map(|events| Box::pin(stream::iter(events)) as EventStream) }.boxed()
        }
    }

    fn error(code: Code, retry_after: Option<u64>) -> ModelError {
        ModelError { retry_after: retry_after.map(Duration::from_millis), ..ModelError::new(code, "no") }
    }

    fn answer() -> Vec<Result<Event, ModelError>> {
        let turn = ModelTurn {
            content: vec![],
            malformed: vec![],
            stop: StopReason::EndTurn,
            usage: Usage::default(),
        };
        vec![Ok(Event::Text("hi".into())), Ok(Event::Done(Box::new(turn)))]
    }

    /// What came, how long it took, and how much of the script was left.
    async fn run(
        script: Vec<Script>,
    ) -> (Result<Vec<Result<Event, ModelError>>, ModelError>, Duration, usize) {
        let description = Description {
            provider: "scripted".into(),
            model: "x".into(),
            simulated: true,
            supports_tools: true,
        };
        let inner = Arc::new(Scripted(description, Mutex::new(script.into())));
        let model = Retrying::seeded(inner.clone(), RetryPolicy::default(), 1);
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
    async fn it_asks_again_until_an_answer_begins() {
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
    async fn it_gives_up_after_two_retries() {
        let refusal = || Err(error(Code::Timeout, None));
        let (result, _, left) = run(vec![refusal(), refusal(), refusal(), Ok(answer())]).await;
        assert_eq!((result.unwrap_err().code, left), (Code::Timeout, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_repeats_what_cannot_succeed_or_was_seen() {
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

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_too_long_is_handed_up() {
        let (result, took, left) = run(vec![Err(error(Code::RateLimited, Some(11_000))), Ok(answer())]).await;
        let error = result.unwrap_err();
        assert_eq!((error.retry_after, took, left), (Some(Duration::from_secs(11)), Duration::ZERO, 1));
    }
}
