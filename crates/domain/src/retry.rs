//! Delayed retries of runs: how many, and when. Immediate retries of a model call are in `llm`.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::model::{ModelError, ModelErrorCode};

/// `[retry.delayed]` of `jobs/orchestrator.toml`: retries of a run after a failed attempt.
///
/// ```toml
/// [retry.delayed]
/// rate_limited = 5
/// network = 3
/// other = 2
/// base_ms = 10_000
/// max_ms = 600_000
/// patience_s = 3_600
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayedRetry {
    /// Maximum retries after a rate limit.
    pub rate_limited: i32,
    /// Maximum retries after a network failure or a timeout.
    pub network: i32,
    /// Maximum retries after any other retryable failure.
    pub other: i32,
    /// Maximum delay of the first retry, in ms; doubled for each further one.
    pub base_ms: u64,
    /// Maximum of the doubled delay, in ms; a longer wait that a provider asks for is respected.
    pub max_ms: u64,
    /// How long, in seconds after the first failure, attempts that met an open circuit breaker do not count as failed.
    pub patience_s: u64,
}

/// The next attempt of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRetry {
    /// When it is due.
    pub at: DateTime<Utc>,
    /// Whether the attempt before it counts as failed; one that called no provider does not.
    pub counts: bool,
}

/// A run whose attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRun {
    /// Number of attempts that failed before this one.
    pub failed: i32,
    /// When the first attempt failed or met an open breaker.
    pub since: DateTime<Utc>,
    /// The current time.
    pub now: DateTime<Utc>,
}

impl DelayedRetry {
    /// Maximum number of retries after this error; 0 if waiting does not help.
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

    /// The next attempt of a run that failed with `error`; `None` if there is none. `chance` in 0..1 is the jitter:
    /// full jitter, so that many failed runs do not retry at the same time. It is added to the wait that the
    /// provider asked for, which is always respected, however long it is.
    ///
    /// An attempt that met an open circuit breaker is postponed until the breaker lets a call through, spread over
    /// the first delay, and does not count as failed, because no provider was called. After `patience_s` it counts
    /// like any other, so that no run waits forever.
    pub fn next_attempt(&self, error: &ModelError, run: &FailedRun, chance: f64) -> Option<PlannedRetry> {
        let attempts = self.attempts(error);
        let patience = i64::try_from(self.patience_s).unwrap_or(i64::MAX);
        let counts = !error.breaker_open || (run.now - run.since).num_seconds() >= patience;
        if attempts == 0 || (counts && run.failed >= attempts) {
            return None;
        }
        let doublings = if counts { u32::try_from(run.failed).unwrap_or(0).min(30) } else { 0 };
        let ceiling = self.base_ms.saturating_mul(1 << doublings).min(self.max_ms);
        let requested =
            error.retry_after.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let delay = requested.saturating_add(part(ceiling, chance)).min(LONGEST_MS);
        let at = run.now + TimeDelta::milliseconds(i64::try_from(delay).unwrap_or(0));
        Some(PlannedRetry { at, counts })
    }
}

/// Maximum delay: one year. Also keeps the sum within the range of dates.
const LONGEST_MS: u64 = 365 * 24 * 3600 * 1000;

/// `chance` times `whole`, in ms.
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

    fn error(code: ModelErrorCode, requested_ms: Option<u64>) -> ModelError {
        ModelError { retry_after: requested_ms.map(Duration::from_millis), ..ModelError::new(code, "no") }
    }

    fn failing(failed: i32) -> FailedRun {
        FailedRun { failed, since: NOW, now: NOW }
    }

    #[test]
    fn delays_double_and_respect_the_provider() {
        let due = |failed, requested| {
            let planned =
                POLICY.next_attempt(&error(ModelErrorCode::RateLimited, requested), &failing(failed), 1.0)?;
            assert!(planned.counts);
            Some((planned.at - NOW).num_seconds())
        };
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|failed| due(failed, None)),
            [Some(10), Some(20), Some(40), Some(80), Some(160), None]
        );
        assert_eq!(due(0, Some(60_000)), Some(70));
        assert_eq!(due(0, Some(24 * 3600 * 1000)), Some(24 * 3600 + 10), "longer than max_ms, but respected");
    }

    #[test]
    fn each_error_code_has_its_number_of_retries() {
        use ModelErrorCode::*;
        for (code, attempts) in [
            (ProviderNotConfigured, 0),
            (ProviderNotSupported, 0),
            (AuthenticationError, 0),
            (RateLimited, 5),
            (ModelNotFound, 0),
            (ContextLengthExceeded, 0),
            (OutputLimitReached, 0),
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
    fn open_breaker_does_not_count_until_patience_ends() {
        let open = ModelError { breaker_open: true, ..error(ModelErrorCode::NetworkError, Some(30_000)) };
        let planned = POLICY.next_attempt(&open, &failing(3), 0.5).unwrap();
        assert!(!planned.counts, "even after three failed attempts");
        assert_eq!((planned.at - NOW).num_seconds(), 35);
        let late = |failed| FailedRun { now: NOW + TimeDelta::seconds(3600), ..failing(failed) };
        assert!(POLICY.next_attempt(&open, &late(2), 0.5).unwrap().counts);
        assert_eq!(POLICY.next_attempt(&open, &late(3), 0.5), None);
    }

    proptest! {
        #[test]
        fn delay_is_between_the_request_and_request_plus_ceiling(
            failed in 0..5i32, requested in proptest::option::of(0..200_000_000u64), chance in 0.0..=1.0f64,
            breaker_open: bool, waited in 0..10_000i64,
        ) {
            let error = ModelError { breaker_open, ..error(ModelErrorCode::RateLimited, requested) };
            let now = NOW + TimeDelta::seconds(waited);
            let run = FailedRun { failed, since: NOW, now };
            let planned = POLICY.next_attempt(&error, &run, chance).unwrap();
            let delay = u64::try_from((planned.at - now).num_milliseconds()).unwrap();
            let requested = requested.unwrap_or(0);
            let ceiling = if planned.counts { 10_000 << failed } else { 10_000 };
            prop_assert!((requested..=requested + ceiling).contains(&delay));
            prop_assert_eq!(planned.counts, !breaker_open || waited >= 3600);
        }

        #[test]
        fn nothing_overflows(failed: i32, requested: u64, base_ms: u64, max_ms: u64, patience_s: u64, chance: f64) {
            let policy = DelayedRetry { base_ms, max_ms, patience_s, rate_limited: i32::MAX, ..POLICY };
            let error = error(ModelErrorCode::RateLimited, Some(requested));
            if let Some(planned) = policy.next_attempt(&error, &failing(failed), chance) {
                prop_assert!(planned.at >= NOW);
            }
        }
    }
}
