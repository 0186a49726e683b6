//! [`Rates`]: how often users' agents call tools whose number of calls per minute is limited.
//!
//! Counted in each process for itself: with several workers, a user may call a tool that often in each. A tool without a
//! limit is not counted by itself. All calls that reach outside are counted together, for the overseer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use houston_domain::id::UserId;
use tokio::time::Instant;

/// The time that is looked at.
const WINDOW: Duration = Duration::from_secs(60);

/// In the place of a tool: calls of all tools that reach outside.
pub(crate) const REACH_OUTSIDE: &str = "";

/// The calls of the last minute, by user and tool.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<(UserId, String), VecDeque<Instant>>>);

impl Rates {
    /// Calls of the tool by the user within the last minute.
    pub(crate) fn count(&self, user: UserId, tool: &str, now: Instant) -> u32 {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(times) = calls.get_mut(&(user, tool.to_owned())) else { return 0 };
        drop_old(times, now);
        u32::try_from(times.len()).unwrap_or(u32::MAX)
    }

    /// Those of them that are younger than this.
    pub(crate) fn count_within(&self, user: UserId, tool: &str, age: Duration, now: Instant) -> u32 {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = calls.get(&(user, tool.to_owned())).into_iter().flatten();
        let young = times.filter(|at| now.duration_since(**at) < age.min(WINDOW)).count();
        u32::try_from(young).unwrap_or(u32::MAX)
    }

    /// Counts a call.
    pub(crate) fn add(&self, user: UserId, tool: &str, now: Instant) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Users who have been quiet for a minute are forgotten now and then.
        if calls.len() >= 1024 && calls.len().is_power_of_two() {
            calls.retain(|_, times| {
                drop_old(times, now);
                !times.is_empty()
            });
        }
        calls.entry((user, tool.to_owned())).or_default().push_back(now);
    }
}

fn drop_old(times: &mut VecDeque<Instant>, now: Instant) {
    while times.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_calls_of_the_last_minute_count() {
        let (rates, user) = (Rates::default(), UserId(Uuid::nil()));
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        rates.add(user, "search_web", at(0));
        rates.add(user, "search_web", at(30));
        rates.add(user, "run_code", at(30));
        assert_eq!(rates.count(user, "search_web", at(59)), 2);
        assert_eq!(rates.count_within(user, "search_web", Duration::from_secs(30), at(59)), 1);
        assert_eq!(rates.count(user, "search_web", at(60)), 1);
        assert_eq!(rates.count(user, "search_web", at(90)), 0);
        assert_eq!(rates.count(UserId(Uuid::max()), "run_code", at(31)), 0);
    }
}
