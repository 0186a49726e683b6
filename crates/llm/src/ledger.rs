//! [`Ledger`]: what the model calls of a request have used, as [metered](fn@crate::metered) models enter it.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use houston_domain::model::Usage;
use houston_domain::step::{CallTiming, ModelCall};

use crate::price::Price;
use crate::provider::Description;

/// What calls have used that have ended. Clones share their entries.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Used>>>);

/// What one call used.
#[derive(Debug, Clone)]
pub struct Used {
    pub(crate) model: Description,
    pub(crate) usage: Usage,
    pub(crate) estimated: bool,
    pub(crate) timing: Option<CallTiming>,
    pub(crate) price: Option<Price>,
}

impl Ledger {
    /// Takes what has been entered, in the order in which the calls ended.
    pub fn take(&self) -> Vec<Used> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether nothing has been entered since the last [`take`](Self::take).
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Enters a call of which nothing is known but the length of its request, because the process that made it has died.
    pub fn enter_lost(&self, model: &Description, input_tokens: u64) {
        let usage = Usage { input_tokens, ..Usage::default() };
        let price = Price::find(&model.provider, &model.model);
        self.enter(Used { model: model.clone(), usage, estimated: true, timing: None, price });
    }

    pub(crate) fn enter(&self, used: Used) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(used);
    }
}

impl Used {
    /// As a call of an iteration of a run, with its cost: as the provider reported it, if that is plausible, else by its price.
    /// The cost of a call without token counts is unknown.
    pub fn call(self, iteration: u32, at: DateTime<Utc>) -> ModelCall {
        let Self { model: Description { provider, model, .. }, mut usage, estimated, timing, price } = self;
        usage.cost = usage.cost.filter(Usage::is_plausible_cost);
        let reported = usage.cost.is_some();
        if !reported && usage.input_tokens.saturating_add(usage.output_tokens) > 0 {
            usage.cost = price.and_then(|price| price.cost(&usage, at));
        }
        let usage = usage.priced();
        ModelCall { provider, model, iteration, usage, reported, estimated, timing }
    }
}
