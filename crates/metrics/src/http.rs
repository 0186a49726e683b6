//! [`Http`]: answered requests.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::labels::{Histograms, Named, histograms, of_requests};

/// Methods with a value of their own; others are `other`.
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "other"];
/// Classes of status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Answered requests by route, method and class of status.
pub struct Http {
    durations: Histograms<Named<3>>,
    /// The series that exist, by route.
    by_route: RwLock<HashMap<String, Arc<Route>>>,
}

/// The series of a route, by method and class.
#[derive(Default)]
struct Route([[OnceLock<Histogram>; CLASSES.len()]; METHODS.len()]);

impl Http {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "Seconds from the head of a request to that of its answer, by route; a stream counts until it begins";
        let durations = histograms(registry, ("http_request_duration_seconds", help), of_requests);
        Self { durations, by_route: RwLock::default() }
    }

    /// A request was answered. `route` is the pattern of its path, of which there are as many as the program has.
    pub fn answered(&self, route: &str, method: &str, status: u16, took: Duration) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        let method = METHODS.iter().position(|one| *one == method).unwrap_or(METHODS.len() - 1);
        let of_route = self.route(route);
        let series = of_route.0[method][class].get_or_init(|| {
            let labels = [("route", route), ("method", METHODS[method]), ("status", CLASSES[class])];
            self.durations.get_or_create(&labels.map(|(name, value)| (name, value.to_owned()))).clone()
        });
        series.observe(took.as_secs_f64());
    }

    fn route(&self, route: &str) -> Arc<Route> {
        let present = self.by_route.read().unwrap_or_else(PoisonError::into_inner).get(route).cloned();
        present.unwrap_or_else(|| {
            let mut by_route = self.by_route.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(by_route.entry(route.to_owned()).or_default())
        })
    }
}
