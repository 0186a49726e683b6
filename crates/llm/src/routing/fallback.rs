//! Several models as one: a request goes to the first that can do it, in the order of the strategy, and to the next when
//! it fails before anything of its answer was seen.
//!
//! | what happened | the next one is asked |
//! |---|---|
//! | time-out, rate limit or overload, 5xx, broken connection | yes, after the immediate retries |
//! | its breaker is open | yes, at once |
//! | an error nobody knows, no credit, an answer that is none | yes |
//! | key refused, model unknown, not configured | no: it is to be mended, not hidden |
//! | request refused (4xx), conversation too long | no: it would be refused everywhere |
//! | its answer had begun | no: somebody has read it |
//!
//! Each change is an [`Event::Fallback`] and a line in the log.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use houston_domain::model::{ModelError, ModelErrorCode as Code};

use crate::model::{Description, Event, EventStream, Model, Request, Switch};
use crate::pace::Paces;
use crate::retry::begin;
use crate::router::{Candidate, Lack, Need, Needs, Order, Strategy, order};

/// Several models as one.
pub struct Fallback {
    strategy: Strategy,
    always: Vec<Need>,
    candidates: Vec<Candidate>,
    /// One for each candidate.
    models: Vec<Arc<dyn Model>>,
    paces: Paces,
    description: Description,
}

impl Fallback {
    /// Of `models`, each of which has its retries and its breaker behind it. `always` is what is needed for every
    /// request; `paces` says how fast each was. `None` when there are no models.
    #[must_use]
    pub fn new(
        strategy: Strategy,
        always: Vec<Need>,
        models: Vec<(Candidate, Arc<dyn Model>)>,
        paces: Paces,
    ) -> Option<Self> {
        let (candidates, models): (Vec<_>, Vec<_>) = models.into_iter().unzip();
        let needs = Needs { always: &always, ..Needs::default() };
        let first = order(strategy, &needs, &candidates, &|_| None).asked.first().copied().unwrap_or(0);
        let description = candidates.get(first)?.description.clone();
        Some(Self { strategy, always, candidates, models, paces, description })
    }

    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let needs = Needs::of(request, &self.always, &self.description.provider);
        let order = order(self.strategy, &needs, &self.candidates, &|model| self.paces.expected(model));
        let mut told = VecDeque::new();
        let mut failed = Vec::new();
        for (nth, place) in order.asked.iter().enumerate() {
            let asked = &self.candidates[*place].description;
            let error = match begin(&*self.models[*place], request).await {
                Ok(answer) => {
                    if *asked != self.description {
                        told.push_back(Event::Answering(Box::new(asked.clone())));
                    }
                    return Ok(Box::pin(Told { told, answer }));
                }
                Err(error) => error,
            };
            let goes_on = may_fall_back(&error);
            if let Some(next) = order.asked.get(nth + 1).filter(|_| goes_on) {
                let switch = self.switch(asked, &self.candidates[*next].description, &error);
                told.push_back(Event::Fallback(Box::new(switch)));
            }
            failed.push((asked, error));
            if !goes_on {
                break;
            }
        }
        Err(self.failure(failed, &order))
    }

    fn switch(&self, from: &Description, to: &Description, error: &ModelError) -> Switch {
        tracing::warn!(%from, %to, code = error.code.as_str(), message = error.message, "model failed, asking the next");
        Switch { from: from.clone(), to: to.clone(), code: error.code, message: error.message.clone() }
    }

    /// One error for all: what may pass decides, if anything may, so that the run is tried again.
    fn failure(&self, failed: Vec<(&Description, ModelError)>, order: &Order) -> ModelError {
        if failed.len() == 1 && order.passed_over.is_empty() {
            return failed.into_iter().map(|(_, error)| error).next().unwrap_or_else(nobody);
        }
        let passing = || failed.iter().map(|(_, error)| error).filter(|error| error.code.is_retryable());
        let deciding = passing().next().or(failed.last().map(|(_, error)| error)).cloned();
        let mut error = deciding.unwrap_or_else(|| unfit(order));
        if passing().next().is_some() {
            error.breaker_open = passing().all(|error| error.breaker_open);
            let wait = passing().map(|error| error.retry_after.unwrap_or_default()).min();
            error.retry_after = wait.filter(|wait| *wait > Duration::ZERO);
        }
        let mut told: Vec<String> = failed.iter().map(|(asked, error)| line(asked, error)).collect();
        told.extend(
            order
                .passed_over
                .iter()
                .map(|(place, lack)| format!("{}: {lack}", self.candidates[*place].description)),
        );
        error.message = told.join("; ");
        error
    }
}

/// Whether another model may do better.
fn may_fall_back(error: &ModelError) -> bool {
    match error.code {
        Code::RateLimited | Code::NetworkError | Code::Timeout => true,
        // Without credit (402, or 429 for good) the request itself is not at fault.
        Code::Unknown | Code::InvalidResponse => {
            !error.refuses_the_request() || matches!(error.status, Some(402 | 429))
        }
        Code::ProviderNotConfigured
        | Code::ProviderNotSupported
        | Code::AuthenticationError
        | Code::ModelNotFound
        | Code::ContextLengthExceeded => false,
    }
}

/// `acme/m: RATE_LIMITED: slow down`, the provider being named once.
fn line(asked: &Description, error: &ModelError) -> String {
    let provider = format!("{}: ", asked.provider);
    let message = error.message.strip_prefix(&provider).unwrap_or(&error.message);
    format!("{asked}: {}: {message}", error.code.as_str())
}

/// Nobody was asked.
fn unfit(order: &Order) -> ModelError {
    let too_long = order.passed_over.iter().any(|(_, lack)| matches!(lack, Lack::Context { .. }));
    if too_long { ModelError::new(Code::ContextLengthExceeded, "") } else { nobody() }
}

fn nobody() -> ModelError {
    ModelError::new(Code::ProviderNotConfigured, "no model can do what this needs")
}

impl Model for Fallback {
    fn description(&self) -> &Description {
        &self.description
    }

    fn candidates(&self) -> Vec<&Description> {
        self.candidates.iter().map(|candidate| &candidate.description).collect()
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(self.ask(request))
    }
}

/// An answer, after what there is to tell of how it came about.
struct Told {
    told: VecDeque<Event>,
    answer: EventStream,
}

impl Stream for Told {
    type Item = Result<Event, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.told.pop_front() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None => self.answer.as_mut().poll_next(cx),
        }
    }
}

#[cfg(test)]
mod tests;
