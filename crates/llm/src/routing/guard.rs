//! What stands between the runs of a process and its providers: a breaker for each model and key, a budget of retries
//! for each provider, shared by all use cases that ask the same. As all calls come by here, their pace is measured here.
//!
//! Each process learns for itself: with ten workers a dead provider is found dead ten times, and probed by ten.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::Stream;
use futures_util::future::BoxFuture;
use houston_domain::clock::Clock;
use houston_domain::model::{ModelError, ModelErrorCode};
use serde::Serialize;
use tokio::time::Instant;

use crate::breaker::{Breaker, BreakerPolicy, BreakerState, Pass, Refused};
use crate::budget::{Budget, BudgetPolicy};
use crate::model::{Description, Event, EventStream, Model, Request};
use crate::pace::{Paces, Stopwatch};
use crate::retry::{RetryPolicy, Retrying};
use crate::secret::Fingerprint;

/// The guards of all models of a process. Cheap to clone: clones are the same.
#[derive(Clone)]
pub struct Guards(Arc<Inner>);

type Shared<T> = Arc<Mutex<T>>;

struct Inner {
    breaker: BreakerPolicy,
    budget: BudgetPolicy,
    time: Time,
    /// By provider, model and key: what one key is refused, another may have.
    breakers: Mutex<BTreeMap<Guard, Shared<Breaker>>>,
    /// By provider.
    budgets: Mutex<BTreeMap<String, Shared<Budget>>>,
    paces: Paces,
}

/// Whose breaker: provider, model, key.
type Guard = (String, String, Option<Fingerprint>);

/// A clock that never goes back, and what it means to people.
#[derive(Clone)]
struct Time {
    started: Instant,
    clock: Arc<dyn Clock>,
}

impl Time {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// What the clock on the wall said, or will say, at `then`.
    fn on_the_wall(&self, then: Duration) -> DateTime<Utc> {
        let delta = |time| TimeDelta::from_std(time).unwrap_or_default();
        self.clock.now() + delta(then) - delta(self.now())
    }
}

/// How a model's breaker stands, for health checks and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BreakerStatus {
    /// As in `anthropic/claude-…` before the slash.
    pub provider: String,
    /// What comes after it.
    pub model: String,
    /// What tells its key from others; not the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether it is asked.
    pub state: BreakerState,
    /// Since when that is so.
    pub since: DateTime<Utc>,
    /// Failed calls: of the last seconds while it is closed, else all since it was.
    pub failures: u64,
}

impl Guards {
    /// Nothing is guarded yet. `clock` tells people when something will be tried again.
    #[must_use]
    pub fn new(breaker: BreakerPolicy, budget: BudgetPolicy, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner {
            breaker,
            budget,
            time: Time { started: Instant::now(), clock },
            breakers: Mutex::default(),
            budgets: Mutex::default(),
            paces: Paces::default(),
        }))
    }

    /// `model` behind its breaker, asked again as `policy` says while its provider's budget lasts.
    #[must_use]
    pub fn guard(&self, model: Arc<dyn Model>, policy: RetryPolicy) -> Arc<dyn Model> {
        let Description { provider, model: name, .. } = model.description();
        let time = self.0.time.clone();
        let breaker = lock(&self.0.breakers)
            .entry((provider.clone(), name.clone(), model.key()))
            .or_insert_with(|| Arc::new(Mutex::new(Breaker::new(self.0.breaker, time.now()))))
            .clone();
        let budget = lock(&self.0.budgets)
            .entry(provider.clone())
            .or_insert_with(|| Arc::new(Mutex::new(Budget::new(self.0.budget))))
            .clone();
        let budget = SharedBudget { budget, time: time.clone() };
        let description = model.description().clone();
        let breaker = Arc::new(SharedBreaker { breaker, time, description });
        let guarded = Guarded { inner: model, breaker, paces: self.0.paces.clone() };
        Arc::new(Retrying::new(Arc::new(guarded), policy).within(budget))
    }

    /// How fast the models have answered.
    #[must_use]
    pub fn paces(&self) -> Paces {
        self.0.paces.clone()
    }

    /// How all breakers stand.
    #[must_use]
    pub fn snapshot(&self) -> Vec<BreakerStatus> {
        let time = &self.0.time;
        lock(&self.0.breakers)
            .iter()
            .map(|((provider, model, key), breaker)| {
                let mut breaker = lock(breaker);
                BreakerStatus {
                    provider: provider.clone(),
                    model: model.clone(),
                    key: key.map(|key| key.to_string()),
                    state: breaker.state(),
                    since: time.on_the_wall(breaker.since()),
                    failures: breaker.failures(time.now()),
                }
            })
            .collect()
    }
}

/// A provider's budget in the hands of its models.
pub(crate) struct SharedBudget {
    budget: Shared<Budget>,
    time: Time,
}

impl SharedBudget {
    pub(crate) fn called(&self) {
        lock(&self.budget).called(self.time.now());
    }

    pub(crate) fn take(&self) -> bool {
        lock(&self.budget).take(self.time.now())
    }
}

/// A model's breaker in the hands of its calls.
struct SharedBreaker {
    breaker: Shared<Breaker>,
    time: Time,
    description: Description,
}

impl SharedBreaker {
    /// Asks for leave; the refusal says who is left alone, why, and until when.
    fn admit(&self) -> Result<Pass, ModelError> {
        let now = self.time.now();
        lock(&self.breaker).admit(now).map_err(|Refused { cause, wait }| {
            let at = self.time.on_the_wall(now + wait).format("%H:%M:%S");
            let message = format!(
                "{}: most of the latest calls failed ({}), so none is made for now; the next is tried at {at} UTC",
                self.description.provider,
                cause.as_str()
            );
            ModelError { retry_after: Some(wait), breaker_open: true, ..ModelError::new(cause, message) }
        })
    }

    fn answered(&self, pass: Pass) {
        lock(&self.breaker).answered(pass, self.time.now());
    }

    fn failed(&self, pass: Pass, error: &ModelError) {
        match error.code {
            code if code.is_retryable() => {
                let mut breaker = lock(&self.breaker);
                let before = breaker.state();
                breaker.failed(pass, code, self.time.now());
                if breaker.state() == BreakerState::Open && before == BreakerState::Closed {
                    tracing::warn!(model = %self.description, code = code.as_str(), "breaker open: not asked for now");
                }
            }
            // What came may have been anybody's.
            ModelErrorCode::InvalidResponse => {}
            _ => self.answered(pass),
        }
    }
}

/// A model behind its breaker.
struct Guarded {
    inner: Arc<dyn Model>,
    breaker: Arc<SharedBreaker>,
    paces: Paces,
}

impl Guarded {
    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let pass = self.breaker.admit()?;
        let stopwatch = self.paces.start(&self.breaker.description);
        match self.inner.stream(request).await {
            Ok(stream) => {
                let breaker = Arc::clone(&self.breaker);
                Ok(Box::pin(Watched { stream, breaker, pass, begun: false, stopwatch }))
            }
            Err(error) => {
                stopwatch.failed(&error);
                self.breaker.failed(pass, &error);
                Err(error)
            }
        }
    }
}

impl Model for Guarded {
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

/// An answer whose beginning and breaking off the breaker hears of: one that breaks counts as both, as its provider
/// is half there. One that is dropped counts no further. Its pace is taken, too.
struct Watched {
    stream: EventStream,
    breaker: Arc<SharedBreaker>,
    pass: Pass,
    begun: bool,
    stopwatch: Stopwatch,
}

impl Stream for Watched {
    type Item = Result<Event, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.stream.as_mut().poll_next(cx));
        match &item {
            Some(Ok(event)) => {
                if !self.begun {
                    self.begun = true;
                    self.breaker.answered(self.pass);
                }
                self.stopwatch.saw(event);
            }
            Some(Err(error)) => {
                self.stopwatch.failed(error);
                self.breaker.failed(self.pass, error);
            }
            None => {}
        }
        Poll::Ready(item)
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
