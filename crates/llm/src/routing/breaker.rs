//! Circuit breaker of one model: rejects calls for a while after too many failures, then lets single calls through
//! until one is answered.
//!
//! ```text
//! closed ── half of 20 calls in 10 s failed, ──► open ── 30 s later ──► half open ── a probe is answered ──► closed
//!           or 2 in a row timed out               ▲                        │ a probe a second at most
//!                                                 └──── a probe failed ────┘
//! ```
//!
//! A call that times out has held its run for a minute, where others fail at once. So few time-outs open the breaker
//! however much time lies between them: those of one user are enough. As long as probes time out, each period is twice as
//! long as the one before, and there is one probe per period: a probe holds a run, too.
//!
//! Failures that count are those that waiting may fix and that any other call would meet, too: rate limits, overload,
//! 5xx, a broken connection, silence. A refused key or request counts as an answer. An invalid response counts as
//! neither.

use std::time::Duration;

use houston_domain::model::ModelErrorCode;
use serde::{Deserialize, Serialize};

use crate::routing::window::Window;

houston_domain::settings! {
    /// `[retry.breaker]` in `jobs/orchestrator.toml`:
    ///
    /// ```toml
    /// window_ms = 10000
    /// min_calls = 20
    /// failed_percent = 50
    /// open_ms = 30000
    /// probe_every_ms = 1000
    /// timeouts = 2
    /// max_open_ms = 300000
    /// ```
    pub struct BreakerPolicy {
        /// Period over which calls are counted, in ms.
        pub window_ms: u64 = 10_000;
        /// Calls needed within the period before the breaker may open.
        pub min_calls: u64 = 20;
        /// Share of failed calls at which the breaker opens, in percent.
        pub failed_percent: u64 = 50;
        /// How long the breaker stays open, in ms.
        pub open_ms: u64 = 30_000;
        /// Shortest interval between probes while half open, in ms.
        pub probe_every_ms: u64 = 1000;
        /// So many time-outs, without a complete answer between them, open the breaker by themselves.
        pub timeouts: u64 = 2;
        /// How long the breaker stays open at most while probes time out, in ms.
        pub max_open_ms: u64 = 300_000;
    }
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls are let through.
    Closed,
    /// Calls are rejected.
    Open,
    /// One call per `probe_every_ms` is let through.
    HalfOpen,
}

/// Permission for one call. The outcome of the call is ignored if the breaker has changed its state since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit(u64);

/// A rejected call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    /// The error code of the failure that opened the breaker.
    pub cause: ModelErrorCode,
    /// Time until the next call may be let through.
    pub wait: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Duration, cause: ModelErrorCode },
    HalfOpen { next_probe: Duration, cause: ModelErrorCode },
}

/// The breaker of one model of one provider, without I/O: `now` is the reading of any monotonic clock.
#[derive(Debug, Clone)]
pub struct Breaker {
    policy: BreakerPolicy,
    state: State,
    since: Duration,
    /// Number of state changes so far; identifies the state a [`Permit`] was issued in.
    changes: u64,
    calls: Window,
    /// Failures since the breaker was last closed.
    failures: u64,
    /// Time-outs since the last complete answer.
    timeouts: u64,
    /// How often time-outs have opened the breaker since the last complete answer.
    openings: u32,
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(policy: BreakerPolicy, now: Duration) -> Self {
        let calls = Window::new(Duration::from_millis(policy.window_ms));
        Self {
            policy,
            state: State::Closed,
            since: now,
            changes: 0,
            calls,
            failures: 0,
            timeouts: 0,
            openings: 0,
        }
    }

    /// The current state.
    pub fn state(&self) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// When the breaker entered its current state.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Number of failed calls: within the window while closed, otherwise since the breaker was last closed.
    pub fn failures(&mut self, now: Duration) -> u64 {
        if self.state == State::Closed { self.calls.counts(now).marked } else { self.failures }
    }

    /// Asks for permission to call.
    ///
    /// # Errors
    /// [`Rejected`] while the breaker is open; while half open, for all calls but one per `probe_every_ms`, or per period
    /// after time-outs.
    pub fn admit(&mut self, now: Duration) -> Result<Permit, Rejected> {
        let next = |cause| match cause {
            ModelErrorCode::Timeout => now + self.open_period(cause),
            _ => now + Duration::from_millis(self.policy.probe_every_ms),
        };
        match self.state {
            State::Closed => {}
            State::Open { until, cause } if now < until => return Err(Rejected { cause, wait: until - now }),
            State::Open { cause, .. } => {
                self.transition(State::HalfOpen { next_probe: next(cause), cause }, now)
            }
            State::HalfOpen { next_probe, cause } if now < next_probe => {
                return Err(Rejected { cause, wait: next_probe - now });
            }
            State::HalfOpen { cause, .. } => {
                self.state = State::HalfOpen { next_probe: next(cause), cause };
            }
        }
        Ok(Permit(self.changes))
    }

    /// How long the breaker stays open after a failure with `cause`.
    fn open_period(&self, cause: ModelErrorCode) -> Duration {
        let doublings =
            if cause == ModelErrorCode::Timeout { self.openings.saturating_sub(1).min(30) } else { 0 };
        let BreakerPolicy { open_ms, max_open_ms, .. } = self.policy;
        Duration::from_millis(open_ms.saturating_mul(1 << doublings).min(max_open_ms.max(open_ms)))
    }

    /// Records that an answer came to its end: the model does not hang.
    pub fn record_end(&mut self) {
        self.timeouts = 0;
        self.openings = 0;
    }

    /// Records that the provider began to answer.
    pub fn record_success(&mut self, permit: Permit, now: Duration) {
        if permit.0 != self.changes {
            return;
        }
        match self.state {
            State::Closed => self.calls.add(now, false),
            State::HalfOpen { .. } => {
                self.failures = 0;
                self.calls = Window::new(Duration::from_millis(self.policy.window_ms));
                // An answer that has begun may still stop before its end: then it opens again.
                self.timeouts = self.timeouts.min(self.policy.timeouts.saturating_sub(1));
                self.transition(State::Closed, now);
            }
            State::Open { .. } => {}
        }
    }

    /// Records that the call failed with `cause`. Call it only for failures that count (see the module page).
    pub fn record_failure(&mut self, permit: Permit, cause: ModelErrorCode, now: Duration) {
        if permit.0 != self.changes {
            return;
        }
        let hung = cause == ModelErrorCode::Timeout;
        self.timeouts += u64::from(hung);
        match self.state {
            State::Closed => {
                self.calls.add(now, true);
                let counts = self.calls.counts(now);
                let enough = counts.all >= self.policy.min_calls;
                let many = enough && counts.marked * 100 >= counts.all * self.policy.failed_percent;
                if many || hung && self.timeouts >= self.policy.timeouts {
                    self.failures = counts.marked.max(if hung { self.timeouts } else { 0 });
                    self.open(cause, now);
                }
            }
            State::HalfOpen { .. } => {
                self.failures += 1;
                self.open(cause, now);
            }
            State::Open { .. } => {}
        }
    }

    fn open(&mut self, cause: ModelErrorCode, now: Duration) {
        self.openings += u32::from(cause == ModelErrorCode::Timeout);
        self.transition(State::Open { until: now + self.open_period(cause), cause }, now);
    }

    fn transition(&mut self, state: State, now: Duration) {
        self.state = state;
        self.since = now;
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use ModelErrorCode::{NetworkError, RateLimited, Timeout};
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn fail(breaker: &mut Breaker, ms: u64) {
        let permit = breaker.admit(at(ms)).unwrap();
        breaker.record_failure(permit, NetworkError, at(ms));
    }

    fn answer(breaker: &mut Breaker, ms: u64) {
        let permit = breaker.admit(at(ms)).unwrap();
        breaker.record_success(permit, at(ms));
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
    fn breaker_opens_at_half_of_enough_calls() {
        let mut breaker = Breaker::new(BreakerPolicy::default(), at(0));
        (0..11).for_each(|_| answer(&mut breaker, 0));
        (0..10).for_each(|_| fail(&mut breaker, 0));
        assert_eq!(breaker.state(), BreakerState::Closed, "10 of 21");
        fail(&mut breaker, 0);
        assert_eq!(breaker.state(), BreakerState::Open, "11 of 22");

        let mut slow = Breaker::new(BreakerPolicy::default(), at(0));
        (0..100).for_each(|nth| fail(&mut slow, nth * 600));
        assert_eq!(slow.state(), BreakerState::Closed, "fewer than 20 calls within 10 s");
    }

    #[test]
    fn open_breaker_probes_once_a_second_after_its_wait() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(1500)), Err(Rejected { cause: NetworkError, wait: at(29_500) }));
        assert!(breaker.admit(at(30_999)).is_err());
        let probe = breaker.admit(at(31_000)).unwrap();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.admit(at(31_400)).unwrap_err().wait, at(600));
        // The first probe is still running: another is let through.
        let second = breaker.admit(at(32_000)).unwrap();
        breaker.record_failure(second, RateLimited, at(32_100));
        assert_eq!(breaker.admit(at(32_200)), Err(Rejected { cause: RateLimited, wait: at(29_900) }));
        breaker.record_success(probe, at(32_300));
        assert_eq!(breaker.state(), BreakerState::Open, "the outcome of an older call is ignored");
        answer(&mut breaker, 62_100);
        assert_eq!((breaker.state(), breaker.failures(at(62_100))), (BreakerState::Closed, 0));
        fail(&mut breaker, 62_200);
        assert_eq!(breaker.state(), BreakerState::Closed, "counting starts again");
    }

    #[test]
    fn outcomes_of_older_calls_do_not_reopen_the_breaker() {
        let mut breaker = Breaker::new(BreakerPolicy::default(), at(0));
        let old = breaker.admit(at(0)).unwrap();
        (0..20).for_each(|_| fail(&mut breaker, 1000));
        let probe = breaker.admit(at(31_000)).unwrap();
        breaker.record_failure(old, NetworkError, at(31_100));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        breaker.record_success(probe, at(31_200));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    fn time_out(breaker: &mut Breaker, ms: u64) {
        let permit = breaker.admit(at(ms)).unwrap();
        breaker.record_failure(permit, Timeout, at(ms + 60_000));
    }

    #[test]
    fn second_time_out_in_a_row_opens_the_breaker() {
        let mut breaker = Breaker::new(BreakerPolicy::default(), at(0));
        // A minute of silence each, minutes apart: what one user makes.
        time_out(&mut breaker, 0);
        assert_eq!(breaker.state(), BreakerState::Closed);
        answer(&mut breaker, 200_000);
        breaker.record_end();
        time_out(&mut breaker, 300_000);
        assert_eq!(breaker.state(), BreakerState::Closed, "an answer lies between");
        fail(&mut breaker, 400_000);
        // Begun, but not ended.
        answer(&mut breaker, 450_000);
        time_out(&mut breaker, 500_000);
        assert_eq!((breaker.state(), breaker.failures(at(560_000))), (BreakerState::Open, 2));
        assert_eq!(breaker.admit(at(560_000)), Err(Rejected { cause: Timeout, wait: at(30_000) }));
    }

    #[test]
    fn probes_that_time_out_are_rarer_each_time() {
        let mut breaker = Breaker::new(BreakerPolicy::default(), at(0));
        time_out(&mut breaker, 0);
        time_out(&mut breaker, 60_000);
        let mut now = 120_000;
        for wait in [30_000, 60_000, 120_000, 240_000, 300_000, 300_000] {
            assert_eq!(breaker.admit(at(now)).unwrap_err().wait, at(wait));
            now += wait;
            let probe = breaker.admit(at(now)).unwrap();
            assert!(breaker.admit(at(now + wait - 1)).is_err(), "one run at a time is held by a probe");
            now += 60_000;
            breaker.record_failure(probe, Timeout, at(now));
        }
        now += 300_000;
        let probe = breaker.admit(at(now)).unwrap();
        breaker.record_success(probe, at(now));
        assert_eq!(breaker.state(), BreakerState::Closed);
        // Begun, and silent again.
        let permit = breaker.admit(at(now)).unwrap();
        breaker.record_failure(permit, Timeout, at(now));
        assert_eq!(breaker.admit(at(now)).unwrap_err().wait, at(300_000));
        now += 300_000;
        answer(&mut breaker, now);
        breaker.record_end();
        time_out(&mut breaker, now);
        assert_eq!(breaker.state(), BreakerState::Closed, "a whole answer is forgiven everything");
    }

    proptest! {
        /// While the breaker is not closed, a provider that never answers is called once in 30 s, or once a second
        /// while probes hang. A rejection never has a zero wait, and a call after that wait is let through.
        #[test]
        fn open_breaker_limits_calls_and_announces_waits(
            steps in proptest::collection::vec((0..2_000u64, 0..3u8), 1..300)
        ) {
            let mut breaker = opened();
            let (mut now, mut last_probe) = (1000, None::<u64>);
            for (step, outcome) in steps {
                now += step;
                match breaker.admit(at(now)) {
                    Ok(permit) => {
                        if let Some(last) = last_probe {
                            prop_assert!(now - last >= 1000, "a probe at {last} and at {now}");
                        }
                        last_probe = Some(now);
                        if outcome > 0 {
                            breaker.record_failure(permit, NetworkError, at(now));
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
