//! A fallback chain: sends a request to the first suitable model in the order of the strategy, and to the next one
//! when that fails before its answer started.
//!
//! | failure | is the next model asked? |
//! |---|---|
//! | rate limit or overload, 5xx, broken connection | yes, after the immediate retries |
//! | time-out, circuit breaker open | yes, at once |
//! | unclassified error, out of credit, invalid response | yes |
//! | key rejected, unknown model, not configured | no: a configuration error must not be hidden |
//! | request rejected (4xx), conversation too long | no: the other models would reject it, too |
//! | the answer had started | no: part of it was already passed on |
//!
//! Models that the request is to [avoid](Request::avoid) are asked last.
//!
//! Each change is reported as an [`Event::Fallback`] and logged.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, BoxFuture};
use futures_util::{StreamExt as _, stream};
use houston_domain::model::{ModelError, ModelErrorCode as Code};

use crate::metered::metered;
use crate::model::{Description, Event, EventStream, Model, Request, Submitting, Switch};
use crate::routing::latency::Latencies;
use crate::routing::retry::start;
use crate::routing::router::{Candidate, Need, Needs, Order, SkipReason, Strategy, order};

/// Several models behind the interface of one.
pub struct Fallback {
    strategy: Strategy,
    always: Vec<Need>,
    candidates: Vec<Candidate>,
    /// One for each entry of `candidates`, in the same order.
    models: Vec<Arc<dyn Model>>,
    latencies: Latencies,
    description: Description,
}

impl Fallback {
    /// Creates a chain of `models`, each of which is already wrapped with retries and a breaker. `always` lists
    /// features that every request needs; `latencies` are used by [`Strategy::Fastest`]. `None` when `models` is
    /// empty.
    pub fn new(
        strategy: Strategy,
        always: Vec<Need>,
        models: Vec<(Candidate, Arc<dyn Model>)>,
        latencies: Latencies,
    ) -> Option<Self> {
        let (candidates, models): (Vec<_>, Vec<_>) =
            models.into_iter().map(|(candidate, model)| (candidate, metered(model))).unzip();
        // As for a request with tools, unless no model supports them: what is prepared for the first must suit the one that answers.
        let first = |tools| {
            let needs = Needs { always: &always, tools, ..Needs::default() };
            order(strategy, &needs, &candidates, &|_| None).asked.first().copied()
        };
        let first = first(true).or_else(|| first(false)).unwrap_or(0);
        let description = candidates.get(first)?.description.clone();
        Some(Self { strategy, always, candidates, models, latencies, description })
    }

    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let needs = Needs::of(request, &self.always, &self.description.provider);
        let mut order =
            order(self.strategy, &needs, &self.candidates, &|model| self.latencies.expected(model));
        if !request.avoid.is_empty() {
            order.asked.sort_by_key(|index| {
                request.avoid.contains(&self.candidates[*index].description.to_string())
            });
        }
        if let Submitting::Fetch(call) | Submitting::Withdraw(call) = request.submitting {
            order.asked.retain(|index| self.candidates[*index].description.to_string() == call.model);
            if order.asked.is_empty() {
                return Ok(Box::pin(stream::once(future::ready(Ok(Event::Gone)))));
            }
        }
        let mut reports = Vec::new();
        let mut failed = Vec::new();
        for (nth, index) in order.asked.iter().enumerate() {
            let candidate = &self.candidates[*index].description;
            let request = Request { has_fallback: nth + 1 < order.asked.len(), ..*request };
            let error = match start(self.models[*index].stream(&request)).await {
                Ok(answer) => {
                    if *candidate != self.description {
                        reports.push(Event::Answering(Box::new(candidate.clone())));
                    }
                    return Ok(Box::pin(stream::iter(reports.into_iter().map(Ok)).chain(answer)));
                }
                Err(error) => error,
            };
            let continues = may_fall_back(&error);
            if let Some(next) = order.asked.get(nth + 1).filter(|_| continues) {
                let switch = self.switch(candidate, &self.candidates[*next].description, &error);
                reports.push(Event::Fallback(Box::new(switch)));
            }
            failed.push((candidate, error));
            if !continues {
                break;
            }
        }
        Err(self.failure(failed, &order))
    }

    fn switch(&self, from: &Description, to: &Description, error: &ModelError) -> Switch {
        tracing::warn!(%from, %to, code = error.code.as_str(), message = error.message, "model failed; asking the next");
        Switch { from: from.clone(), to: to.clone(), code: error.code, message: error.message.clone() }
    }

    /// Combines the errors of all models. If any is retryable, the combined error is, so that the run is retried.
    fn failure(&self, failed: Vec<(&Description, ModelError)>, order: &Order) -> ModelError {
        if failed.len() == 1 && order.skipped.is_empty() {
            return failed.into_iter().map(|(_, error)| error).next().unwrap_or_else(no_suitable_model);
        }
        let retryable = || failed.iter().map(|(_, error)| error).filter(|error| error.code.is_retryable());
        let deciding = retryable().next().or(failed.last().map(|(_, error)| error)).cloned();
        let mut error = deciding.unwrap_or_else(|| none_suitable(order));
        if retryable().next().is_some() {
            error.breaker_open = retryable().all(|error| error.breaker_open);
            let wait = retryable().map(|error| error.retry_after.unwrap_or_default()).min();
            error.retry_after = wait.filter(|wait| *wait > Duration::ZERO);
        }
        let mut lines: Vec<String> = failed.iter().map(|(candidate, error)| line(candidate, error)).collect();
        lines.extend(
            order
                .skipped
                .iter()
                .map(|(index, reason)| format!("{}: {reason}", self.candidates[*index].description)),
        );
        error.message = lines.join("; ");
        error
    }
}

/// Whether another model may succeed where this error occurred.
fn may_fall_back(error: &ModelError) -> bool {
    match error.code {
        Code::RateLimited | Code::NetworkError | Code::Timeout => true,
        // Out of credit (402, or 429 without retry): the request itself is valid.
        Code::Unknown | Code::InvalidResponse => {
            !error.refuses_the_request() || matches!(error.status, Some(402 | 429))
        }
        Code::ProviderNotConfigured
        | Code::ProviderNotSupported
        | Code::AuthenticationError
        | Code::ModelNotFound
        | Code::ContextLengthExceeded
        | Code::OutputLimitReached => false,
    }
}

/// Formats `acme/m: RATE_LIMITED: slow down`, without repeating the provider's name.
fn line(candidate: &Description, error: &ModelError) -> String {
    let provider = format!("{}: ", candidate.provider);
    let message = error.message.strip_prefix(&provider).unwrap_or(&error.message);
    format!("{candidate}: {}: {message}", error.code.as_str())
}

/// The error when no model was suitable.
fn none_suitable(order: &Order) -> ModelError {
    let too_long = order.skipped.iter().any(|(_, reason)| matches!(reason, SkipReason::Context { .. }));
    if too_long { ModelError::new(Code::ContextLengthExceeded, "") } else { no_suitable_model() }
}

fn no_suitable_model() -> ModelError {
    ModelError::new(Code::ProviderNotConfigured, "no configured model supports what this request needs")
}

impl Model for Fallback {
    fn description(&self) -> &Description {
        &self.description
    }

    fn is_metered(&self) -> bool {
        true
    }

    fn candidates(&self) -> Vec<&Description> {
        self.candidates.iter().map(|candidate| &candidate.description).collect()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(self.ask(request))
    }
}

#[cfg(test)]
mod tests;
