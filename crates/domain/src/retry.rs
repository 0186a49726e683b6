//! Retry arithmetic across runs: how often, and when next. Immediate retries of a model call live in `llm`.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::model::ModelErrorCode;

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
    /// The longest delay, in ms.
    pub max_ms: u64,
}

impl DelayedRetry {
    /// How many attempts an error of this kind gets; 0 for one that waiting does not mend.
    #[must_use]
    pub fn attempts(&self, code: ModelErrorCode) -> i32 {
        match code {
            ModelErrorCode::RateLimited => self.rate_limited,
            ModelErrorCode::NetworkError | ModelErrorCode::Timeout => self.network,
            ModelErrorCode::InvalidResponse | ModelErrorCode::Unknown => self.other,
            _ => 0,
        }
    }

    /// When the attempt after `failed` failures is due, or `None` after the last one. `chance` in 0..1 is the
    /// jitter: full, so that many failed runs do not come back together; never sooner than `retry_after_ms`.
    #[must_use]
    pub fn next_attempt(
        &self,
        code: ModelErrorCode,
        failed: i32,
        retry_after_ms: Option<u64>,
        chance: f64,
        now: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        if failed > self.attempts(code) {
            return None;
        }
        let doublings = u32::try_from(failed.saturating_sub(1)).unwrap_or(0).min(30);
        let ceiling = self.base_ms.saturating_mul(1 << doublings).min(self.max_ms);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "milliseconds of minutes are far below 2^52"
        )]
        let jittered = (ceiling as f64 * chance.clamp(0.0, 1.0)) as u64;
        let delay = jittered.max(retry_after_ms.unwrap_or(0));
        Some(now + TimeDelta::milliseconds(i64::try_from(delay).unwrap_or(i64::MAX / 2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: DelayedRetry =
        DelayedRetry { rate_limited: 5, network: 3, other: 2, base_ms: 10_000, max_ms: 600_000 };

    #[test]
    fn attempts_end_and_delays_grow_and_wait_as_long_as_asked() {
        let now = DateTime::UNIX_EPOCH;
        let due = |failed, after| POLICY.next_attempt(ModelErrorCode::RateLimited, failed, after, 1.0, now);
        assert_eq!(due(1, None), Some(now + TimeDelta::seconds(10)));
        assert_eq!(due(5, None), Some(now + TimeDelta::seconds(160)));
        assert_eq!(due(6, None), None);
        assert_eq!(due(1, Some(60_000)), Some(now + TimeDelta::seconds(60)));
        assert_eq!(POLICY.next_attempt(ModelErrorCode::AuthenticationError, 1, None, 1.0, now), None);
        assert_eq!(POLICY.next_attempt(ModelErrorCode::NetworkError, 1, None, 0.0, now), Some(now));
    }
}
