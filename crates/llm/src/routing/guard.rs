//! Wraps models with a circuit breaker per model and key and a retry budget per provider, both shared by all use
//! cases that call the same. Latency is measured and requests are counted here as well, because every call
//! passes through.
//!
//! State is per process: with ten workers, each opens its own breaker for a dead provider, and each probes it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use houston_domain::clock::Clock;
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_metrics::Metrics;
use serde::Serialize;
use tokio::time::Instant;

use crate::metered::metered;
use crate::model::{Description, Event, EventStream, Model, Request, Submitting};
use crate::routing::breaker::{Breaker, BreakerPolicy, BreakerState, Permit, Rejected};
use crate::routing::latency::Latencies;
use crate::routing::meter::Meter;
use crate::routing::retry::{RetryBudget, RetryBudgetPolicy, RetryPolicy, start};
use crate::secret::Fingerprint;

/// The breakers, retry budgets and latencies of all models of a process. Clones share their state.
#[derive(Clone)]
pub struct Guards(Arc<Inner>);

type Shared<T> = Arc<Mutex<T>>;

struct Inner {
    breaker: BreakerPolicy,
    budget: RetryBudgetPolicy,
    time: MonotonicClock,
    /// By provider, model and key: another key may be accepted where this one is rejected.
    breakers: Mutex<BTreeMap<BreakerKey, Shared<Breaker>>>,
    /// By provider.
    budgets: Mutex<BTreeMap<String, Shared<RetryBudget>>>,
    latencies: Latencies,
    metrics: Arc<Metrics>,
}

/// Identifies a breaker: provider, model, key.
type BreakerKey = (String, String, Option<Fingerprint>);

/// A monotonic clock, with the conversion to wall-clock time for messages.
#[derive(Clone)]
struct MonotonicClock {
    started: Instant,
    clock: Arc<dyn Clock>,
}

impl MonotonicClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The wall-clock time at `then`, past or future.
    fn to_utc(&self, then: Duration) -> DateTime<Utc> {
        let delta = |time| TimeDelta::from_std(time).unwrap_or_default();
        self.clock.now() + delta(then) - delta(self.now())
    }
}

/// State of one breaker, for health checks and metrics. Serializes as:
///
/// ```json
/// {"provider": "anthropic", "model": "claude-sonnet-4-5", "key": "a2448281", "state": "open",
///     "since": "2026-11-22T12:00:00Z", "failures": 20}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BreakerStatus {
    /// The provider's name, e.g. `anthropic`.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Fingerprint of the key (8 hexadecimal digits), if there is a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether calls are let through.
    pub state: BreakerState,
    /// When the breaker entered its state.
    pub since: DateTime<Utc>,
    /// Number of failed calls: within the window while closed, otherwise since the breaker was last closed.
    pub failures: u64,
}

impl Guards {
    /// Creates guards without any models. `clock` is used for the times in messages and in
    /// [`snapshot`](Self::snapshot); requests are counted in `metrics`.
    pub fn new(
        breaker: BreakerPolicy,
        budget: RetryBudgetPolicy,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self(Arc::new(Inner {
            breaker,
            budget,
            time: MonotonicClock { started: Instant::now(), clock },
            breakers: Mutex::default(),
            budgets: Mutex::default(),
            latencies: Latencies::default(),
            metrics,
        }))
    }

    /// Wraps `model` with its breaker, and with retries as in `policy` within the budget of its provider.
    pub fn guard(&self, model: Arc<dyn Model>, policy: RetryPolicy) -> Arc<dyn Model> {
        let Description { provider, model: name, .. } = model.description();
        let time = self.0.time.clone();
        let breaker = lock(&self.0.breakers)
            .entry((provider.clone(), name.clone(), model.key()))
            .or_insert_with(|| Arc::new(Mutex::new(Breaker::new(self.0.breaker, time.now()))))
            .clone();
        let budget = lock(&self.0.budgets)
            .entry(provider.clone())
            .or_insert_with(|| Arc::new(Mutex::new(RetryBudget::new(self.0.budget))))
            .clone();
        let description = model.description().clone();
        let clock = Arc::clone(&time.clock);
        let meter = Meter::new(&self.0.metrics, self.latencies(), &description, clock);
        let breaker = Arc::new(SharedBreaker { breaker, time, description });
        Arc::new(GuardedModel { inner: metered(model), policy, budget, breaker, meter })
    }

    /// The measured latencies of the guarded models.
    pub fn latencies(&self) -> Latencies {
        self.0.latencies.clone()
    }

    /// The state of all breakers.
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
                    since: time.to_utc(breaker.since()),
                    failures: breaker.failures(time.now()),
                }
            })
            .collect()
    }
}

/// A model's breaker, shared by its calls.
struct SharedBreaker {
    breaker: Shared<Breaker>,
    time: MonotonicClock,
    description: Description,
}

impl SharedBreaker {
    /// Asks for permission to call. The error says why calls are rejected and until when.
    fn admit(&self) -> Result<Permit, ModelError> {
        let now = self.time.now();
        lock(&self.breaker).admit(now).map_err(|Rejected { cause, wait }| {
            let at = self.time.to_utc(now + wait).format("%H:%M:%S");
            let message = format!(
                "{}: {} ({}); next attempt at {at} UTC",
                self.description.provider,
                ModelError::NOT_CALLED,
                cause.as_str()
            );
            ModelError { retry_after: Some(wait), breaker_open: true, ..ModelError::new(cause, message) }
        })
    }

    fn record_success(&self, permit: Permit) {
        lock(&self.breaker).record_success(permit, self.time.now());
    }

    fn record_end(&self) {
        lock(&self.breaker).record_end();
    }

    fn record_failure(&self, permit: Permit, error: &ModelError) {
        match error.code {
            code if code.is_retryable() => {
                let mut breaker = lock(&self.breaker);
                let before = breaker.state();
                breaker.record_failure(permit, code, self.time.now());
                if breaker.state() == BreakerState::Open && before == BreakerState::Closed {
                    tracing::warn!(model = %self.description, code = code.as_str(), "circuit breaker opened");
                }
            }
            // An invalid response may be due to anything in between, e.g. a proxy.
            ModelErrorCode::InvalidResponse => {}
            _ => self.record_success(permit),
        }
    }
}

/// A model behind its circuit breaker, whose failed calls are repeated.
struct GuardedModel {
    inner: Arc<dyn Model>,
    policy: RetryPolicy,
    /// Of its provider, shared by its models.
    budget: Shared<RetryBudget>,
    breaker: Arc<SharedBreaker>,
    meter: Meter,
}

impl GuardedModel {
    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let time = &self.breaker.time;
        lock(&self.budget).record_call(time.now());
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match start(self.attempt(request)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let Some(wait) = self.policy.wait_before(attempt, &error, request.has_fallback) else {
                return Err(error);
            };
            if !lock(&self.budget).withdraw(time.now()) {
                return Err(error);
            }
            tracing::warn!(
                model = %self.inner.description(),
                code = error.code.as_str(),
                attempt,
                wait_ms = wait.as_millis(),
                "model call failed; asking again"
            );
            tokio::time::sleep(wait).await;
            if let Some(waited) = request.waited_ms.filter(|_| error.retry_after.is_some()) {
                waited.fetch_add(u64::try_from(wait.as_millis()).unwrap_or(0), Ordering::Relaxed);
            }
        }
    }

    /// One call. The start and the failure of its answer are reported to the breaker. An answer that breaks off counts as both,
    /// since its provider is half available; one that is dropped counts as a success only if it had started. Also measures latency.
    async fn attempt(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let permit = self.breaker.admit()?;
        // An answer that was ready before it was asked for says nothing about speed.
        let is_timed = matches!(request.submitting, Submitting::No | Submitting::Allowed);
        let mut metered = self.meter.start(is_timed);
        let breaker = Arc::clone(&self.breaker);
        let answer = match self.inner.stream(request).await {
            Ok(answer) => answer,
            Err(error) => {
                metered.record_failure(&error);
                breaker.record_failure(permit, &error);
                return Err(error);
            }
        };
        let mut started = false;
        Ok(Box::pin(answer.inspect(move |item| match item {
            Ok(event) => {
                if !std::mem::replace(&mut started, true) {
                    breaker.record_success(permit);
                }
                if matches!(event, Event::Done(_) | Event::Submitted(_) | Event::Gone) {
                    breaker.record_end();
                }
                if !matches!(event, Event::Submitted(_) | Event::Gone) {
                    metered.record_event(event);
                }
            }
            Err(error) => {
                metered.record_failure(error);
                breaker.record_failure(permit, error);
            }
        })))
    }
}

impl Model for GuardedModel {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn key(&self) -> Option<Fingerprint> {
        self.inner.key()
    }

    fn is_metered(&self) -> bool {
        true
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(self.ask(request))
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
