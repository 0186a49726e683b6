//! How fast models answered recently, measured in this process: time to the first event, and output tokens per second
//! after it.
//!
//! Both are moving averages in which the latest call weighs a fifth, so that a provider that became slow is noticed
//! within a few calls. Measurements older than ten minutes are ignored: otherwise a model that was slow once would
//! never be tried again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::Description;

/// Weight of the latest call in the averages.
const WEIGHT_OF_LATEST: f64 = 0.2;

/// How long a measurement is used.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Shortest duration from which a token rate is computed: an answer that arrived at once was generated before it was
/// sent.
const MIN_OUTPUT_TIME: Duration = Duration::from_millis(50);

/// Length of the answer whose duration is estimated, in tokens: a paragraph and a tool call.
const TYPICAL_TOKENS: f64 = 300.0;

/// Tokens per second assumed while only the first event was measured: slow among the models sold in 2026.
const DEFAULT_TOKENS_PER_S: f64 = 30.0;

/// Measured latency of one model, without I/O: `now` is the reading of any monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    first_event_s: Option<f64>,
    tokens_per_s: Option<f64>,
    last_measured: Duration,
}

impl Latency {
    /// Records the time to the first event; for a call that timed out before it, the time waited.
    pub fn record_first_event(&mut self, after: Duration, now: Duration) {
        self.first_event_s = Some(blend(self.first_event_s, after.as_secs_f64()));
        self.last_measured = now;
    }

    /// Records that `tokens` were written within `took`, from the first event to the last.
    pub fn record_output(&mut self, tokens: u64, took: Duration, now: Duration) {
        if tokens > 0 && took >= MIN_OUTPUT_TIME {
            let tokens = u32::try_from(tokens).map_or(f64::from(u32::MAX), f64::from);
            self.tokens_per_s = Some(blend(self.tokens_per_s, tokens / took.as_secs_f64()));
            self.last_measured = now;
        }
    }

    /// Estimated duration of an answer of typical length; `None` without a measurement in the last ten minutes.
    pub fn expected(&self, now: Duration) -> Option<Duration> {
        let first = self.first_event_s.filter(|_| now.saturating_sub(self.last_measured) <= MAX_AGE)?;
        let writing = TYPICAL_TOKENS / self.tokens_per_s.unwrap_or(DEFAULT_TOKENS_PER_S);
        Duration::try_from_secs_f64(first + writing).ok()
    }
}

fn blend(past: Option<f64>, latest: f64) -> f64 {
    past.map_or(latest, |past| past + WEIGHT_OF_LATEST * (latest - past))
}

/// The latencies of all models used by this process. Clones share their data.
#[derive(Debug, Clone)]
pub struct Latencies {
    started: Instant,
    by_model: Arc<Mutex<BTreeMap<String, Latency>>>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { started: Instant::now(), by_model: Arc::default() }
    }
}

impl Latencies {
    /// Estimated duration of an answer of `model`; `None` without a measurement in the last ten minutes.
    pub fn expected(&self, model: &Description) -> Option<Duration> {
        let now = self.started.elapsed();
        let by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        by_model.get(&model.to_string())?.expected(now)
    }

    /// Records what was measured of a call of the model, by its description.
    pub(crate) fn measure(&self, model: &str, measured: impl FnOnce(&mut Latency, Duration)) {
        let now = self.started.elapsed();
        let mut by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        measured(by_model.entry(model.to_owned()).or_default(), now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn latency_weighs_recent_calls_and_forgets_old_ones() {
        let mut latency = Latency::default();
        assert_eq!(latency.expected(s(0.0)), None);
        latency.record_first_event(s(1.0), s(1.0));
        assert_eq!(latency.expected(s(1.0)), Some(s(11.0)), "300 tokens at 30 a second");
        latency.record_output(200, s(2.0), s(3.0));
        assert_eq!(latency.expected(s(3.0)), Some(s(4.0)));
        for nth in 0..20 {
            latency.record_first_event(s(5.0), s(4.0 + f64::from(nth)));
        }
        let expected = latency.expected(s(30.0)).unwrap();
        assert!(expected > s(7.9) && expected < s(8.0), "{expected:?}");
        assert_eq!(latency.expected(s(700.0)), None);
        // A rate is not computed from an answer that arrived in one piece.
        latency.record_output(4000, s(0.001), s(700.0));
        assert_eq!(latency.expected(s(700.0)), None);
    }

    proptest! {
        #[test]
        fn expected_latency_is_within_the_measurements(
            calls in proptest::collection::vec((0.0..60.0f64, 1..5000u64, 0.1..100.0f64), 1..50)
        ) {
            let mut latency = Latency::default();
            let (mut quickest, mut slowest) = (f64::MAX, 0.0f64);
            for (first, tokens, took) in &calls {
                latency.record_first_event(s(*first), s(0.0));
                latency.record_output(*tokens, s(*took), s(0.0));
            }
            let rates = || calls.iter().map(|(_, tokens, took)| f64::from(u32::try_from(*tokens).unwrap()) / took);
            for (first, _, _) in &calls {
                for rate in rates() {
                    quickest = quickest.min(first + 300.0 / rate);
                    slowest = slowest.max(first + 300.0 / rate);
                }
            }
            let expected = latency.expected(s(0.0)).unwrap().as_secs_f64();
            prop_assert!(expected >= quickest - 0.001 && expected <= slowest + 0.001);
        }
    }
}
