//! Retry budget of one provider: limits immediate retries to a share of its calls, so that retries do not prolong an
//! outage by adding load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::routing::window::Window;

/// `[retry.budget]` in `jobs/orchestrator.toml`:
///
/// ```toml
/// window_ms = 10000
/// percent = 10
/// floor = 10
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryBudgetPolicy {
    /// Period over which calls and retries are counted, in ms.
    pub window_ms: u64,
    /// Largest share of a provider's calls that may be retries, in percent.
    pub percent: u64,
    /// Retries allowed within the period whatever the share.
    pub floor: u64,
}

impl Default for RetryBudgetPolicy {
    /// 10 % of the calls of 10 s, and at least 10 retries.
    fn default() -> Self {
        Self { window_ms: 10_000, percent: 10, floor: 10 }
    }
}

/// The retry budget of one provider, without I/O: `now` is the reading of any monotonic clock.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    policy: RetryBudgetPolicy,
    calls: Window,
}

impl RetryBudget {
    /// Creates a budget without any calls yet.
    #[must_use]
    pub fn new(policy: RetryBudgetPolicy) -> Self {
        Self { policy, calls: Window::new(Duration::from_millis(policy.window_ms)) }
    }

    /// Records a call that is not a retry.
    pub fn record_call(&mut self, now: Duration) {
        self.calls.add(now, false);
    }

    /// Takes one retry from the budget; `false` when the budget is used up.
    pub fn withdraw(&mut self, now: Duration) -> bool {
        let counts = self.calls.counts(now);
        // The retry counts as a call, too.
        let share = (counts.all + 1).saturating_mul(self.policy.percent) / 100;
        let granted = counts.marked < share.max(self.policy.floor);
        if granted {
            self.calls.add(now, true);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn retry_budget_is_the_floor_or_ten_percent() {
        let mut budget = RetryBudget::new(RetryBudgetPolicy::default());
        let now = Duration::from_secs(100);
        budget.record_call(now);
        assert_eq!((0..50).filter(|_| budget.withdraw(now)).count(), 10, "the floor applies");
        assert!(
            budget.withdraw(now + Duration::from_secs(11)),
            "retries are available again after the window"
        );
        let now = Duration::from_secs(200);
        (0..900).for_each(|_| budget.record_call(now));
        assert_eq!((0..500).filter(|_| budget.withdraw(now)).count(), 100, "10 % of 1000 calls");
    }

    proptest! {
        #[test]
        fn retries_never_exceed_the_budget(
            steps in proptest::collection::vec((0..50u64, 0..4u8), 1..300)
        ) {
            let mut budget = RetryBudget::new(RetryBudgetPolicy::default());
            let (mut now, mut log) = (0, Vec::new());
            for (step, retries) in steps {
                now += step;
                budget.record_call(Duration::from_millis(now));
                log.push((now, false));
                for _ in 0..retries {
                    if budget.withdraw(Duration::from_millis(now)) {
                        log.push((now, true));
                    }
                }
                let recent = || log.iter().rev().take_while(|(at, _)| now - at < 9_000);
                let (all, marked) = (recent().count(), recent().filter(|(_, retry)| *retry).count());
                // Calls that left the window since may have justified retries that are still in it.
                let before = log.iter().filter(|(at, _)| now - at < 20_000).count();
                prop_assert!(marked <= 10.max(before / 10), "{marked} of {all}");
            }
        }
    }
}
