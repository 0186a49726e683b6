//! Whether a model is asked at all. One that keeps failing is left alone for a while, then tried now and then until
//! it answers.
//!
//! ```text
//! closed ── half of 20 calls in 10 s failed ──► open ── 30 s later ──► half open ── a probe is answered ──► closed
//!                                                ▲                        │ a probe a second at most
//!                                                └──── a probe failed ────┘
//! ```
//!
//! What counts as failed is what waiting may mend and another call would meet too: rate limits, overload, 5xx, a
//! broken connection, silence. A refused key or request is an answer. An answer that is none (garbage) says nothing.

use std::time::Duration;

use houston_domain::model::ModelErrorCode;
use serde::{Deserialize, Serialize};

use crate::window::Window;

/// `[retry.breaker]` of `jobs/orchestrator.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakerPolicy {
    /// Over how much time calls are counted, in ms.
    pub window_ms: u64,
    /// Of fewer calls than this nothing is concluded.
    pub min_calls: u64,
    /// How many of them must have failed, in percent.
    pub failed_percent: u64,
    /// How long nobody is asked then, in ms.
    pub open_ms: u64,
    /// How often it is tried after that, in ms.
    pub probe_every_ms: u64,
}

impl Default for BreakerPolicy {
    /// Half of 20 calls in 10 s; 30 s; once a second.
    fn default() -> Self {
        Self { window_ms: 10_000, min_calls: 20, failed_percent: 50, open_ms: 30_000, probe_every_ms: 1000 }
    }
}

/// How a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Everybody may call.
    Closed,
    /// Nobody may.
    Open,
    /// One a second may.
    HalfOpen,
}

/// Leave to call; its outcome counts only while the breaker still stands as it stood then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass(u64);

/// No leave to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// How the calls failed.
    pub cause: ModelErrorCode,
    /// In how long somebody may call again.
    pub wait: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Duration, cause: ModelErrorCode },
    HalfOpen { next_probe: Duration, cause: ModelErrorCode },
}

/// The breaker of one model of one provider, free of I/O: `now` is any clock that never goes back.
#[derive(Debug, Clone)]
pub struct Breaker {
    policy: BreakerPolicy,
    state: State,
    since: Duration,
    /// How often the state has changed.
    changes: u64,
    calls: Window,
    /// Failures since it was last closed.
    failures: u64,
}

impl Breaker {
    /// Closed.
    #[must_use]
    pub fn new(policy: BreakerPolicy, now: Duration) -> Self {
        let calls = Window::new(Duration::from_millis(policy.window_ms));
        Self { policy, state: State::Closed, since: now, changes: 0, calls, failures: 0 }
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Since when it stands so.
    #[must_use]
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Failed calls: while closed, of the window; else all since it was closed.
    pub fn failures(&mut self, now: Duration) -> u64 {
        if self.state == State::Closed { self.calls.counts(now).marked } else { self.failures }
    }

    /// Asks for leave to call.
    ///
    /// # Errors
    /// [`Refused`] while it is open, and while half open for all but one call a second.
    pub fn admit(&mut self, now: Duration) -> Result<Pass, Refused> {
        let every = Duration::from_millis(self.policy.probe_every_ms);
        match self.state {
            State::Closed => {}
            State::Open { until, cause } if now < until => return Err(Refused { cause, wait: until - now }),
            State::Open { cause, .. } => self.turn(State::HalfOpen { next_probe: now + every, cause }, now),
            State::HalfOpen { next_probe, cause } if now < next_probe => {
                return Err(Refused { cause, wait: next_probe - now });
            }
            State::HalfOpen { cause, .. } => self.state = State::HalfOpen { next_probe: now + every, cause },
        }
        Ok(Pass(self.changes))
    }

    /// The provider answered.
    pub fn answered(&mut self, pass: Pass, now: Duration) {
        if pass.0 != self.changes {
            return;
        }
        match self.state {
            State::Closed => self.calls.add(now, false),
            State::HalfOpen { .. } => {
                self.failures = 0;
                self.calls = Window::new(Duration::from_millis(self.policy.window_ms));
                self.turn(State::Closed, now);
            }
            State::Open { .. } => {}
        }
    }

    /// The call failed with `cause`, which is one of those that count.
    pub fn failed(&mut self, pass: Pass, cause: ModelErrorCode, now: Duration) {
        if pass.0 != self.changes {
            return;
        }
        let open = State::Open { until: now + Duration::from_millis(self.policy.open_ms), cause };
        match self.state {
            State::Closed => {
                self.calls.add(now, true);
                let counts = self.calls.counts(now);
                let enough = counts.all >= self.policy.min_calls;
                if enough && counts.marked * 100 >= counts.all * self.policy.failed_percent {
                    self.failures = counts.marked;
                    self.turn(open, now);
                }
            }
            State::HalfOpen { .. } => {
                self.failures += 1;
                self.turn(open, now);
            }
            State::Open { .. } => {}
        }
    }

    fn turn(&mut self, state: State, now: Duration) {
        self.state = state;
        self.since = now;
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use ModelErrorCode::{NetworkError, RateLimited};
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn fail(breaker: &mut Breaker, ms: u64) {
        let pass = breaker.admit(at(ms)).unwrap();
        breaker.failed(pass, NetworkError, at(ms));
    }

    fn answer(breaker: &mut Breaker, ms: u64) {
        let pass = breaker.admit(at(ms)).unwrap();
        breaker.answered(pass, at(ms));
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::new(BreakerPolicy::default(), at(0));
        (0..20).for_each(|_| fail(&mut breaker, 1000));
        assert_eq!(
            (breaker.state(), breaker.since(), breaker.failures(at(1000))),
            (BreakerState::Open, at(1000), 20)
        );
        breaker
    }

    #[test]
    fn it_opens_when_half_of_enough_calls_failed_and_not_before() {
        let mut breaker = Breaker::new(BreakerPolicy::default(), at(0));
        (0..11).for_each(|_| answer(&mut breaker, 0));
        (0..10).for_each(|_| fail(&mut breaker, 0));
        assert_eq!(breaker.state(), BreakerState::Closed, "10 of 21");
        fail(&mut breaker, 0);
        assert_eq!(breaker.state(), BreakerState::Open, "11 of 22");

        let mut slow = Breaker::new(BreakerPolicy::default(), at(0));
        (0..100).for_each(|nth| fail(&mut slow, nth * 600));
        assert_eq!(slow.state(), BreakerState::Closed, "never 20 within 10 s");
    }

    #[test]
    fn it_stays_open_for_its_time_and_then_lets_one_call_a_second_through() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(1500)), Err(Refused { cause: NetworkError, wait: at(29_500) }));
        assert!(breaker.admit(at(30_999)).is_err());
        let probe = breaker.admit(at(31_000)).unwrap();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.admit(at(31_400)).unwrap_err().wait, at(600));
        // The first probe takes its time: another may try.
        let second = breaker.admit(at(32_000)).unwrap();
        breaker.failed(second, RateLimited, at(32_100));
        assert_eq!(breaker.admit(at(32_200)), Err(Refused { cause: RateLimited, wait: at(29_900) }));
        breaker.answered(probe, at(32_300));
        assert_eq!(breaker.state(), BreakerState::Open, "an answer to an older question changes nothing");
        answer(&mut breaker, 62_100);
        assert_eq!((breaker.state(), breaker.failures(at(62_100))), (BreakerState::Closed, 0));
        fail(&mut breaker, 62_200);
        assert_eq!(breaker.state(), BreakerState::Closed, "it begins anew");
    }

    #[test]
    fn calls_from_before_it_opened_do_not_open_it_again() {
        let mut breaker = Breaker::new(BreakerPolicy::default(), at(0));
        let old = breaker.admit(at(0)).unwrap();
        (0..20).for_each(|_| fail(&mut breaker, 1000));
        let probe = breaker.admit(at(31_000)).unwrap();
        breaker.failed(old, NetworkError, at(31_100));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        breaker.answered(probe, at(31_200));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    proptest! {
        /// Whatever happens: while it is not closed, a provider that never answers is asked once in 30 s, or once
        /// a second while probes hang; a refusal never says "now", and waiting that long gets leave.
        #[test]
        fn it_never_lets_more_through_than_it_says(
            steps in proptest::collection::vec((0..2_000u64, 0..3u8), 1..300)
        ) {
            let mut breaker = opened();
            let (mut now, mut last_probe) = (1000, None::<u64>);
            for (step, outcome) in steps {
                now += step;
                match breaker.admit(at(now)) {
                    Ok(pass) => {
                        if let Some(last) = last_probe {
                            prop_assert!(now - last >= 1000, "a probe at {last} and at {now}");
                        }
                        last_probe = Some(now);
                        if outcome > 0 {
                            breaker.failed(pass, NetworkError, at(now));
                            last_probe = Some(now + 29_000);
                        }
                    }
                    Err(refused) => {
                        prop_assert!(refused.wait > Duration::ZERO && refused.wait <= at(30_000));
                        prop_assert!(breaker.clone().admit(at(now) + refused.wait).is_ok());
                    }
                }
            }
        }
    }
}
