//! Rate limits: how many requests a user may send, and how many tokens the user's runs may take, within a time.
//!
//! A limit is counted as the generic cell rate algorithm has it: by one time, at which nothing would be used any more. What is
//! used ahead of now is the distance to it. The whole quota may be used at once, and comes back evenly.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::setting::within;

/// The limits: `jobs/rates.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    /// Requests of one user that start work.
    pub requests: Quota,
    /// The same of one API key.
    pub keys: Quota,
    /// Tokens of the runs of one user.
    pub tokens: TokenQuota,
}

/// How many units within which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The units; 0: no limit.
    pub quota: u32,
    /// The time, in seconds.
    #[serde(deserialize_with = "within::<1, 86_400, _, _>")]
    pub window_s: u32,
}

/// How many tokens within which time, and what happens beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenQuota {
    /// The tokens; 0: no limit.
    pub quota: u32,
    /// The time, in seconds.
    #[serde(deserialize_with = "within::<1, 86_400, _, _>")]
    pub window_s: u32,
    /// How many a run is admitted with at least.
    pub floor: u32,
    /// The longest time, in seconds, for which one run delays others.
    pub longest_wait_s: u32,
    /// What happens beyond the quota.
    pub when_exceeded: WhenExceeded,
}

/// What happens when the tokens of a user are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenExceeded {
    /// Messages are accepted, and their runs wait.
    #[default]
    Wait,
    /// Requests that start work are refused.
    Reject,
}

impl RateLimits {
    /// The limits of the shipped file.
    pub const USUAL: Self = Self {
        requests: Quota { quota: 20, window_s: 60 },
        keys: Quota { quota: 0, window_s: 60 },
        tokens: TokenQuota {
            quota: 30_000,
            window_s: 60,
            floor: 1_000,
            longest_wait_s: 600,
            when_exceeded: WhenExceeded::Wait,
        },
    };

    /// Whether requests are limited in any way.
    pub fn limit_requests(&self) -> bool {
        self.requests.is_on() || self.keys.is_on() || self.tokens.is_on()
    }
}

impl Quota {
    /// Whether there is a limit.
    pub fn is_on(&self) -> bool {
        self.quota > 0
    }

    /// How many units are left when nothing is used any more in `ahead` seconds.
    pub fn left(&self, ahead: f64) -> u32 {
        let used = (ahead / f64::from(self.window_s.max(1))).clamp(0.0, 1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to the quota"
        )]
        // A little more, because sums of parts of a window are inexact.
        let left = (f64::from(self.quota) * (1.0 - used) + 1e-6).floor() as u32;
        left
    }
}

impl TokenQuota {
    /// Whether there is a limit.
    pub fn is_on(&self) -> bool {
        self.quota > 0
    }

    /// Tokens and time, without the rest.
    pub fn quota(&self) -> Quota {
        Quota { quota: self.quota, window_s: self.window_s }
    }

    /// How many tokens are left when nothing is used any more in `ahead` seconds, and how long until that is more than none.
    pub fn standing(&self, ahead: f64) -> (u32, Duration) {
        let wait = Duration::try_from_secs_f64(ahead - f64::from(self.window_s.max(1)));
        (self.quota().left(ahead), wait.unwrap_or_default())
    }

    /// Whether a run that begins now is admitted. `ahead`: in how many seconds nothing is used any more; `per_run`: what a run of
    /// the user takes on average.
    pub fn admit(&self, ahead: f64, per_run: Option<f64>) -> Admission {
        let most = f64::from(self.quota);
        let estimate = per_run.unwrap_or(0.0).max(f64::from(self.floor)).min(most);
        #[expect(clippy::cast_possible_truncation, reason = "it is from 0 to the quota")]
        let tokens = estimate.round() as i64;
        let (_, wait) = self.standing(ahead);
        let waits = !wait.is_zero() && self.when_exceeded == WhenExceeded::Wait;
        Admission { tokens, wait: waits.then_some(wait) }
    }
}

/// With how many tokens a run is admitted, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// What is counted at once.
    pub tokens: i64,
    /// How long it waits; `None`: it begins now.
    pub wait: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: TokenQuota = RateLimits::USUAL.tokens;

    #[test]
    fn run_is_admitted_while_any_token_is_left() {
        assert_eq!(TOKENS.admit(0.0, None), Admission { tokens: 1_000, wait: None });
        assert_eq!(TOKENS.admit(59.9, Some(5_000.4)), Admission { tokens: 5_000, wait: None });
        let late = TOKENS.admit(90.0, Some(5_000.0));
        assert_eq!(late, Admission { tokens: 5_000, wait: Some(Duration::from_secs(30)) });
        assert_eq!(TOKENS.admit(0.0, Some(1e9)).tokens, 30_000, "never more than the quota");
        let rejects = TokenQuota { when_exceeded: WhenExceeded::Reject, ..TOKENS };
        assert_eq!(
            rejects.admit(90.0, None).wait,
            None,
            "its request was refused, or it was accepted before"
        );
    }

    #[test]
    fn tokens_come_back_evenly() {
        assert_eq!(TOKENS.standing(-5.0), (30_000, Duration::ZERO));
        assert_eq!(TOKENS.standing(30.0), (15_000, Duration::ZERO));
        assert_eq!(TOKENS.standing(61.5), (0, Duration::from_millis(1_500)));
        assert_eq!(TokenQuota::default().standing(1.0).0, 0);
        let left = |requests: u32| RateLimits::USUAL.requests.left(f64::from(requests) * (60.0 / 20.0));
        assert!((0..=20).all(|requests| left(requests) == 20 - requests));
    }
}
