//! Retry arithmetic across runs: how often, and when next. Immediate retries of a model call live in `llm`.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::model::{ModelError, ModelErrorCode};

/// The delayed retries of `jobs/orchestrator.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayedRetry {
    /// Attempts after a rate limit.
    pub rate_limited: i32,
    /// Attempts after a network failure.
    pub network: i32,
    /// Attempts after anything else that may pass.
    pub other: i32,
    /// The delay of the first, in ms; each further one doubles it.
    pub base_ms: u64,
    /// The longest delay that nobody asked for, in ms.
    pub max_ms: u64,
    /// For how long, in s after the first failure, an attempt that met an open breaker is no failed attempt.
    pub patience_s: u64,
}

/// The next attempt of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When it is due.
    pub at: DateTime<Utc>,
    /// Whether the one that led to it counts as failed: one that asked nobody does not.
    pub counts: bool,
}

/// A run whose attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing {
    /// How many attempts failed before this one.
    pub failed: i32,
    /// When the first attempt failed, or met an open breaker.
    pub since: DateTime<Utc>,
    /// The current instant.
    pub now: DateTime<Utc>,
}

impl DelayedRetry {
    /// How many further attempts an error of this kind gets; 0 for one that waiting does not mend.
    #[must_use]
    pub fn attempts(&self, error: &ModelError) -> i32 {
        match error.code {
            ModelErrorCode::RateLimited => self.rate_limited,
            ModelErrorCode::NetworkError | ModelErrorCode::Timeout => self.network,
            ModelErrorCode::InvalidResponse | ModelErrorCode::Unknown if !error.refuses_the_request() => {
                self.other
            }
            _ => 0,
        }
    }

    /// The next attempt of a run that failed with `error`, or `None` when that was the last one. `chance` in
    /// 0..1 is the jitter: full, so that many failed runs do not come back together. It is added to what the
    /// provider asked for, which is never undercut, however long it is.
    ///
    /// An attempt that met an open breaker is put off to when the breaker lets a call through again, spread over
    /// the first delay, and does not count: the run has had no answer to fail with. After `patience_s` it counts
    /// like any other, so that nobody waits for ever.
    #[must_use]
    pub fn next_attempt(&self, error: &ModelError, run: &Failing, chance: f64) -> Option<Planned> {
        let attempts = self.attempts(error);
        let patience = i64::try_from(self.patience_s).unwrap_or(i64::MAX);
        let counts = !error.breaker_open || (run.now - run.since).num_seconds() >= patience;
        if attempts == 0 || (counts && run.failed >= attempts) {
            return None;
        }
        let doublings = if counts { u32::try_from(run.failed).unwrap_or(0).min(30) } else { 0 };
        let ceiling = self.base_ms.saturating_mul(1 << doublings).min(self.max_ms);
        let asked = error.retry_after.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let delay = asked.saturating_add(part(ceiling, chance)).min(LONGEST_MS);
        let at = run.now + TimeDelta::milliseconds(i64::try_from(delay).unwrap_or(0));
        Some(Planned { at, counts })
    }
}

/// Nobody waits longer than a year, and dates have an end.
const LONGEST_MS: u64 = 365 * 24 * 3600 * 1000;

/// `chance` of `whole` milliseconds.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "milliseconds of minutes are far below 2^52"
)]
fn part(whole: u64, chance: f64) -> u64 {
    (whole as f64 * chance.clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const POLICY: DelayedRetry = DelayedRetry {
        rate_limited: 5,
        network: 3,
        other: 2,
        base_ms: 10_000,
        max_ms: 600_000,
        patience_s: 3600,
    };
    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn error(code: ModelErrorCode, asked_ms: Option<u64>) -> ModelError {
        ModelError { retry_after: asked_ms.map(Duration::from_millis), ..ModelError::new(code, "no") }
    }

    fn failing(failed: i32) -> Failing {
        Failing { failed, since: NOW, now: NOW }
    }

    #[test]
    fn attempts_end_and_delays_grow_and_wait_as_long_as_asked() {
        let due = |failed, asked| {
            let planned =
                POLICY.next_attempt(&error(ModelErrorCode::RateLimited, asked), &failing(failed), 1.0)?;
            assert!(planned.counts);
            Some((planned.at - NOW).num_seconds())
        };
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|failed| due(failed, None)),
            [Some(10), Some(20), Some(40), Some(80), Some(160), None]
        );
        assert_eq!(due(0, Some(60_000)), Some(70));
        assert_eq!(due(0, Some(24 * 3600 * 1000)), Some(24 * 3600 + 10), "longer than max_ms, and kept");
    }

    #[test]
    fn each_code_has_its_number_of_attempts_and_a_refused_request_has_none() {
        use ModelErrorCode::*;
        for (code, attempts) in [
            (ProviderNotConfigured, 0),
            (ProviderNotSupported, 0),
            (AuthenticationError, 0),
            (RateLimited, 5),
            (ModelNotFound, 0),
            (ContextLengthExceeded, 0),
            (NetworkError, 3),
            (Timeout, 3),
            (InvalidResponse, 2),
            (Unknown, 2),
        ] {
            assert_eq!(POLICY.attempts(&error(code, None)), attempts, "{code:?}");
        }
        let refused = ModelError { status: Some(400), ..error(Unknown, None) };
        assert_eq!(POLICY.attempts(&refused), 0);
        assert_eq!(POLICY.next_attempt(&refused, &failing(0), 0.5), None);
    }

    #[test]
    fn an_open_breaker_puts_off_without_counting_until_patience_ends() {
        let open = ModelError { breaker_open: true, ..error(ModelErrorCode::NetworkError, Some(30_000)) };
        let planned = POLICY.next_attempt(&open, &failing(3), 0.5).unwrap();
        assert!(!planned.counts, "although three have failed");
        assert_eq!((planned.at - NOW).num_seconds(), 35);
        let late = |failed| Failing { now: NOW + TimeDelta::seconds(3600), ..failing(failed) };
        assert!(POLICY.next_attempt(&open, &late(2), 0.5).unwrap().counts);
        assert_eq!(POLICY.next_attempt(&open, &late(3), 0.5), None);
    }

    proptest! {
        #[test]
        fn never_sooner_than_asked_nor_later_than_asked_and_the_ceiling(
            failed in 0..5i32, asked in proptest::option::of(0..200_000_000u64), chance in 0.0..=1.0f64,
            breaker_open: bool, waited in 0..10_000i64,
        ) {
            let error = ModelError { breaker_open, ..error(ModelErrorCode::RateLimited, asked) };
            let now = NOW + TimeDelta::seconds(waited);
            let run = Failing { failed, since: NOW, now };
            let planned = POLICY.next_attempt(&error, &run, chance).unwrap();
            let delay = u64::try_from((planned.at - now).num_milliseconds()).unwrap();
            let asked = asked.unwrap_or(0);
            let ceiling = if planned.counts { 10_000 << failed } else { 10_000 };
            prop_assert!((asked..=asked + ceiling).contains(&delay));
            prop_assert_eq!(planned.counts, !breaker_open || waited >= 3600);
        }

        #[test]
        fn nothing_overflows(failed: i32, asked: u64, base_ms: u64, max_ms: u64, patience_s: u64, chance: f64) {
            let policy = DelayedRetry { base_ms, max_ms, patience_s, rate_limited: i32::MAX, ..POLICY };
            let error = error(ModelErrorCode::RateLimited, Some(asked));
            if let Some(planned) = policy.next_attempt(&error, &failing(failed), chance) {
                prop_assert!(planned.at >= NOW);
            }
        }
    }
}
