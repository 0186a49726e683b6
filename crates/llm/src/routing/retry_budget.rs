//! How many immediate retries a provider is sent, however many runs want some: in an outage, retries must not
//! become the load that keeps it down.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::window::Window;

/// `[retry.budget]` of `jobs/orchestrator.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetPolicy {
    /// Over how much time calls and retries are counted, in ms.
    pub window_ms: u64,
    /// How many of a provider's calls may be retries, in percent.
    pub percent: u64,
    /// How many may be in any case.
    pub floor: u64,
}

impl Default for BudgetPolicy {
    /// 10 % of the calls of 10 s, or 10.
    fn default() -> Self {
        Self { window_ms: 10_000, percent: 10, floor: 10 }
    }
}

/// The budget of one provider, free of I/O: `now` is any clock that never goes back.
#[derive(Debug, Clone)]
pub struct Budget {
    policy: BudgetPolicy,
    calls: Window,
}

impl Budget {
    /// Nothing has been called yet.
    #[must_use]
    pub fn new(policy: BudgetPolicy) -> Self {
        Self { policy, calls: Window::new(Duration::from_millis(policy.window_ms)) }
    }

    /// A call that is no retry was made.
    pub fn called(&mut self, now: Duration) {
        self.calls.add(now, false);
    }

    /// Takes a retry out of the budget; false when there is none left.
    pub fn take(&mut self, now: Duration) -> bool {
        let counts = self.calls.counts(now);
        // With this one: it is a call itself.
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
    fn few_calls_have_the_floor_and_many_a_tenth() {
        let mut budget = Budget::new(BudgetPolicy::default());
        let now = Duration::from_secs(100);
        budget.called(now);
        assert_eq!((0..50).filter(|_| budget.take(now)).count(), 10, "the floor");
        assert!(budget.take(now + Duration::from_secs(11)), "time gives it back");
        let now = Duration::from_secs(200);
        (0..900).for_each(|_| budget.called(now));
        assert_eq!((0..500).filter(|_| budget.take(now)).count(), 100, "100 of 1000");
    }

    proptest! {
        #[test]
        fn retries_are_never_more_than_a_tenth_or_the_floor(
            steps in proptest::collection::vec((0..50u64, 0..4u8), 1..300)
        ) {
            let mut budget = Budget::new(BudgetPolicy::default());
            let (mut now, mut log) = (0, Vec::new());
            for (step, retries) in steps {
                now += step;
                budget.called(Duration::from_millis(now));
                log.push((now, false));
                for _ in 0..retries {
                    if budget.take(Duration::from_millis(now)) {
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
