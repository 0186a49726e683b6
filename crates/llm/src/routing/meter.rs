//! Measures the requests of one model: for [`Metrics`] their number, duration, tokens and cost, and how fast it answers.

use std::sync::Arc;

use houston_domain::clock::Clock;
use houston_domain::model::{ModelError, ModelErrorCode, Usage};
use houston_metrics::Metrics;
use houston_metrics::models::OfModel;
use rust_decimal::prelude::ToPrimitive as _;
use tokio::time::Instant;

use crate::model::{Description, Event};
use crate::price::Price;
use crate::routing::latency::Latencies;

/// The series of a model, and its price.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Inner>);

struct Inner {
    model: String,
    series: Arc<OfModel>,
    latencies: Latencies,
    price: Option<Price>,
    clock: Arc<dyn Clock>,
}

impl Meter {
    pub(crate) fn new(
        metrics: &Metrics,
        latencies: Latencies,
        model: &Description,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let series = metrics.models.of(&model.provider, &model.model);
        let price = Price::find(&model.provider, &model.model);
        Self(Arc::new(Inner { model: model.to_string(), series, latencies, price, clock }))
    }

    /// A request begins. With `is_timed` it says how fast the model is.
    pub(crate) fn start(&self, is_timed: bool) -> MeteredCall {
        MeteredCall { meter: self.clone(), is_timed, started: Instant::now(), first: None }
    }

    /// US dollars: what the provider reported, else by its price.
    fn cost(&self, usage: &Usage) -> Option<f64> {
        let reported = usage.cost.filter(Usage::is_plausible_cost);
        let cost = reported.or_else(|| self.0.price.as_ref()?.cost(usage, self.0.clock.now()));
        cost?.to_f64()
    }
}

/// One request. One that is dropped before its end, because its run was stopped, is not counted.
pub(crate) struct MeteredCall {
    meter: Meter,
    is_timed: bool,
    started: Instant,
    /// When the first event came.
    first: Option<Instant>,
}

impl MeteredCall {
    /// Counts what an event of the answer says.
    pub(crate) fn record_event(&mut self, event: &Event) {
        let Inner { series, latencies, model, .. } = &*self.meter.0;
        let first = *self.first.get_or_insert_with(|| {
            series.began(self.started.elapsed());
            if self.is_timed {
                latencies.measure(model, |of, now| of.record_first_event(self.started.elapsed(), now));
            }
            Instant::now()
        });
        let Event::Done(turn) = event else { return };
        series.answered(&turn.usage, self.meter.cost(&turn.usage), self.started.elapsed());
        if self.is_timed {
            let took = first.elapsed();
            latencies.measure(model, |of, now| of.record_output(turn.usage.output_tokens, took, now));
        }
    }

    /// Counts a failure. Only a time-out before the first event counts as slow; a refusal says nothing about speed.
    pub(crate) fn record_failure(&self, error: &ModelError) {
        let Inner { series, latencies, model, .. } = &*self.meter.0;
        if self.is_timed && error.code == ModelErrorCode::Timeout && self.first.is_none() {
            latencies.measure(model, |of, now| of.record_first_event(self.started.elapsed(), now));
        }
        series.failed(error, self.started.elapsed());
    }
}
