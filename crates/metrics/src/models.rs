//! [`Models`]: requests to model providers, each attempt by itself.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use houston_domain::model::{ModelError, ModelErrorCode, Usage};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::labels::{Histograms, Named, histograms, metric, of_models};

/// How many models have series of their own. Tenants may name models, so without a limit they could make any number.
pub const MAX_MODELS: usize = 200;
/// The labels of the models beyond the limit.
const OTHER: &str = "other";
/// The values of the label `type` of tokens. `input` has those of the cache in it, and `output` those of reasoning.
const TYPES: [&str; 5] = ["input", "output", "cache_read", "cache_write", "reasoning"];

/// Requests to model providers.
pub struct Models {
    /// Calls that were not made, because a budget did not allow them.
    pub over_budget: Counter,
    requests: Family<Named<3>, Counter>,
    durations: Histograms<Named<2>>,
    first_tokens: Histograms<Named<2>>,
    tokens: Family<Named<3>, Counter>,
    costs: Family<Named<2>, Counter<f64, AtomicU64>>,
    by_name: Mutex<BTreeMap<(String, String), Arc<OfModel>>>,
}

/// The series of one model.
pub struct OfModel {
    succeeded: Counter,
    /// In the order of [`ModelErrorCode::ALL`].
    failed: [Counter; ModelErrorCode::ALL.len()],
    durations: Histogram,
    first_tokens: Histogram,
    tokens: [Counter; TYPES.len()],
    cost: Counter<f64, AtomicU64>,
}

impl Models {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "US dollars, of requests whose price is in the list or was reported";
        let costs = metric(registry, ("llm_cost_usd", help));
        let help = "Model calls of runs that were not made, because a budget did not allow them";
        let over_budget = metric(registry, ("llm_over_budget", help));
        let help = "Requests to providers, each attempt by itself; the code is ok or that of the failure";
        let requests = metric(registry, ("llm_requests", help));
        let help = "Seconds from a request to the end of its answer or its failure";
        let durations = histograms(registry, ("llm_request_duration_seconds", help), of_models);
        let help = "Seconds from a request to the first piece of its answer";
        let first_tokens = histograms(registry, ("llm_time_to_first_token_seconds", help), of_models);
        let help = "Tokens; input includes those of the cache, output those of reasoning";
        let tokens = metric(registry, ("llm_tokens", help));
        let by_name = Mutex::default();
        Self { over_budget, requests, durations, first_tokens, tokens, costs, by_name }
    }

    /// The series of a model, for as long as it is called.
    pub fn of(&self, provider: &str, model: &str) -> Arc<OfModel> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut name = (provider.to_owned(), model.to_owned());
        if by_name.len() >= MAX_MODELS && !by_name.contains_key(&name) {
            name = (OTHER.to_owned(), OTHER.to_owned());
        }
        let made = || Arc::new(self.make(&name.0, &name.1));
        Arc::clone(by_name.entry(name.clone()).or_insert_with(made))
    }

    fn make(&self, provider: &str, model: &str) -> OfModel {
        let labels: Named<2> = [("provider", provider.to_owned()), ("model", model.to_owned())];
        let requests = |code: &str| self.requests.get_or_create_owned(&with(&labels, ("code", code)));
        OfModel {
            succeeded: requests("ok"),
            failed: ModelErrorCode::ALL.map(|code| requests(code.as_str())),
            durations: self.durations.get_or_create_owned(&labels),
            first_tokens: self.first_tokens.get_or_create_owned(&labels),
            tokens: TYPES.map(|name| self.tokens.get_or_create_owned(&with(&labels, ("type", name)))),
            cost: self.costs.get_or_create_owned(&labels),
        }
    }
}

fn with([provider, model]: &Named<2>, (name, value): (&'static str, &str)) -> Named<3> {
    [provider.clone(), model.clone(), (name, value.to_owned())]
}

impl OfModel {
    /// The first piece of an answer came.
    pub fn began(&self, after: Duration) {
        self.first_tokens.observe(after.as_secs_f64());
    }

    /// The answer is complete. `cost`: US dollars, if it has a price.
    pub fn answered(&self, usage: &Usage, cost: Option<f64>, took: Duration) {
        self.succeeded.inc();
        self.durations.observe(took.as_secs_f64());
        let Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
            ..
        } = *usage;
        let counts = [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens];
        for (counter, count) in self.tokens.iter().zip(counts) {
            counter.inc_by(count);
        }
        if let Some(cost) = cost.filter(|cost| cost.is_finite() && *cost > 0.0) {
            self.cost.inc_by(cost);
        }
    }

    /// The request failed.
    pub fn failed(&self, error: &ModelError, took: Duration) {
        self.failed[error.code as usize].inc();
        self.durations.observe(took.as_secs_f64());
    }
}
