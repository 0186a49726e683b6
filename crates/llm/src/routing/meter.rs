//! Counts the requests of one model for [`Metrics`]: their number, duration, tokens and cost.

use std::sync::Arc;

use houston_domain::clock::Clock;
use houston_domain::model::{ModelError, Usage};
use houston_metrics::Metrics;
use houston_metrics::models::OfModel;
use rust_decimal::prelude::ToPrimitive as _;
use tokio::time::Instant;

use crate::model::{Description, Event};
use crate::price::Price;

/// The series of a model, and its price.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Inner>);

struct Inner {
    series: Arc<OfModel>,
    price: Option<Price>,
    clock: Arc<dyn Clock>,
}

impl Meter {
    pub(crate) fn new(metrics: &Metrics, model: &Description, clock: Arc<dyn Clock>) -> Self {
        let Description { provider, model, .. } = model;
        let series = metrics.models.of(provider, model);
        Self(Arc::new(Inner { series, price: Price::find(provider, model), clock }))
    }

    /// A request begins.
    pub(crate) fn start(&self) -> MeteredCall {
        MeteredCall { meter: self.clone(), started: Instant::now(), began: false }
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
    started: Instant,
    began: bool,
}

impl MeteredCall {
    /// Counts what an event of the answer says.
    pub(crate) fn record_event(&mut self, event: &Event) {
        let series = &self.meter.0.series;
        if !std::mem::replace(&mut self.began, true) {
            series.began(self.started.elapsed());
        }
        if let Event::Done(turn) = event {
            series.answered(&turn.usage, self.meter.cost(&turn.usage), self.started.elapsed());
        }
    }

    /// Counts a failure.
    pub(crate) fn record_failure(&self, error: &ModelError) {
        self.meter.0.series.failed(error, self.started.elapsed());
    }
}
