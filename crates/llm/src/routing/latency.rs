//! How fast models have answered lately, in this process: time to the first event, and tokens a second after it.
//!
//! Both are averages in which each call counts for a fifth and the past for the rest, so that a provider which has
//! become slow is noticed within a handful of calls. What was not measured for ten minutes counts as unmeasured: a
//! model that was slow once would otherwise never be tried again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use houston_domain::model::{ModelError, ModelErrorCode};
use tokio::time::Instant;

use crate::model::{Description, Event};

/// What the latest call counts for.
const LATEST: f64 = 0.2;

/// For how long a measurement says something.
const LASTS: Duration = Duration::from_secs(600);

/// An answer that came at once was written before it was sent: it says nothing about tokens a second.
const SHORTEST_WRITING: Duration = Duration::from_millis(50);

/// Tokens of an answer whose duration is compared: a paragraph and a tool call.
const TYPICAL_TOKENS: f64 = 300.0;

/// Tokens a second of a model of which only the first event was measured: slow among those sold in 2026.
const SLOW_TOKENS: f64 = 30.0;

/// How fast a model answers, free of I/O: `now` is any clock that never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pace {
    first_event_s: Option<f64>,
    tokens_per_s: Option<f64>,
    latest: Duration,
}

impl Pace {
    /// The first event of an answer came so long after the question; or, of a call that timed out, did not come.
    pub fn began(&mut self, after: Duration, now: Duration) {
        self.first_event_s = Some(blend(self.first_event_s, after.as_secs_f64()));
        self.latest = now;
    }

    /// So many tokens were written within `took`, from the first event to the last.
    pub fn wrote(&mut self, tokens: u64, took: Duration, now: Duration) {
        if tokens > 0 && took >= SHORTEST_WRITING {
            let tokens = u32::try_from(tokens).map_or(f64::from(u32::MAX), f64::from);
            self.tokens_per_s = Some(blend(self.tokens_per_s, tokens / took.as_secs_f64()));
            self.latest = now;
        }
    }

    /// How long an answer of usual length takes; `None` when there is no measurement of late.
    #[must_use]
    pub fn expected(&self, now: Duration) -> Option<Duration> {
        let first = self.first_event_s.filter(|_| now.saturating_sub(self.latest) <= LASTS)?;
        let writing = TYPICAL_TOKENS / self.tokens_per_s.unwrap_or(SLOW_TOKENS);
        Duration::try_from_secs_f64(first + writing).ok()
    }
}

fn blend(past: Option<f64>, latest: f64) -> f64 {
    past.map_or(latest, |past| past + LATEST * (latest - past))
}

/// The paces of all models of a process. Cheap to clone: clones are the same.
#[derive(Debug, Clone)]
pub struct Paces {
    started: Instant,
    by_model: Arc<Mutex<BTreeMap<String, Pace>>>,
}

impl Default for Paces {
    fn default() -> Self {
        Self { started: Instant::now(), by_model: Arc::default() }
    }
}

impl Paces {
    /// How long an answer of `model` takes; `None` when there is no measurement of late.
    #[must_use]
    pub fn expected(&self, model: &Description) -> Option<Duration> {
        let now = self.started.elapsed();
        let by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        by_model.get(&model.to_string())?.expected(now)
    }

    /// A call of `model` begins.
    pub(crate) fn start(&self, model: &Description) -> Stopwatch {
        Stopwatch { paces: self.clone(), model: model.to_string(), asked: Instant::now(), first: None }
    }

    fn measure(&self, model: &str, measured: impl FnOnce(&mut Pace, Duration)) {
        let now = self.started.elapsed();
        let mut by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        measured(by_model.entry(model.to_owned()).or_default(), now);
    }
}

/// Takes the pace of one call.
pub(crate) struct Stopwatch {
    paces: Paces,
    model: String,
    asked: Instant,
    first: Option<Instant>,
}

impl Stopwatch {
    /// An event came.
    pub(crate) fn saw(&mut self, event: &Event) {
        let Self { paces, model, asked, first } = self;
        let first = *first.get_or_insert_with(|| {
            paces.measure(model, |pace, now| pace.began(asked.elapsed(), now));
            Instant::now()
        });
        if let Event::Done(turn) = event {
            let took = first.elapsed();
            paces.measure(model, |pace, now| pace.wrote(turn.usage.output_tokens, took, now));
        }
    }

    /// The call failed. Who is silent until he is given up is slow; who refuses at once is not fast.
    pub(crate) fn failed(&self, error: &ModelError) {
        if error.code == ModelErrorCode::Timeout && self.first.is_none() {
            self.paces.measure(&self.model, |pace, now| pace.began(self.asked.elapsed(), now));
        }
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
    fn the_latest_calls_count_most_and_old_ones_are_forgotten() {
        let mut pace = Pace::default();
        assert_eq!(pace.expected(s(0.0)), None);
        pace.began(s(1.0), s(1.0));
        assert_eq!(pace.expected(s(1.0)), Some(s(11.0)), "300 tokens at 30 a second");
        pace.wrote(200, s(2.0), s(3.0));
        assert_eq!(pace.expected(s(3.0)), Some(s(4.0)));
        for nth in 0..20 {
            pace.began(s(5.0), s(4.0 + f64::from(nth)));
        }
        let expected = pace.expected(s(30.0)).unwrap();
        assert!(expected > s(7.9) && expected < s(8.0), "{expected:?}");
        assert_eq!(pace.expected(s(700.0)), None);
        // An answer in one piece was not written in no time.
        pace.wrote(4000, s(0.001), s(700.0));
        assert_eq!(pace.expected(s(700.0)), None);
    }

    proptest! {
        #[test]
        fn what_is_expected_lies_between_what_was_measured(
            calls in proptest::collection::vec((0.0..60.0f64, 1..5000u64, 0.1..100.0f64), 1..50)
        ) {
            let mut pace = Pace::default();
            let (mut quickest, mut slowest) = (f64::MAX, 0.0f64);
            for (first, tokens, took) in &calls {
                pace.began(s(*first), s(0.0));
                pace.wrote(*tokens, s(*took), s(0.0));
            }
            let rates = || calls.iter().map(|(_, tokens, took)| f64::from(u32::try_from(*tokens).unwrap()) / took);
            for (first, _, _) in &calls {
                for rate in rates() {
                    quickest = quickest.min(first + 300.0 / rate);
                    slowest = slowest.max(first + 300.0 / rate);
                }
            }
            let expected = pace.expected(s(0.0)).unwrap().as_secs_f64();
            prop_assert!(expected >= quickest - 0.001 && expected <= slowest + 0.001);
        }
    }
}
