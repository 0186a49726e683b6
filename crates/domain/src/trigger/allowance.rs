//! How often a trigger may fire: the generic cell rate algorithm, whose whole state is one time.

use chrono::{DateTime, TimeDelta, Utc};

/// The time over which firings are counted.
const WINDOW: TimeDelta = TimeDelta::hours(1);

/// Counts one firing at `now` against `per_hour`. `free_at` is when no earlier firing counts any more; the result is the new
/// one, and `None` when the trigger has fired too often. So it may fire `per_hour` times at once, and then once each time that a
/// part of the hour has passed.
///
/// A clock that was set back does not hold a trigger for longer than an hour: a time beyond that is of another clock.
pub fn count(free_at: Option<DateTime<Utc>>, now: DateTime<Utc>, per_hour: i32) -> Option<DateTime<Utc>> {
    let each = WINDOW / per_hour.max(1);
    let used = free_at.filter(|at| *at - now <= WINDOW).unwrap_or(now).max(now);
    let next = used + each;
    (next - now <= WINDOW).then_some(next)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(minutes: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minutes)
    }

    #[test]
    fn firings_are_spread_over_the_hour() {
        let mut free_at = None;
        for _ in 0..60 {
            free_at = Some(count(free_at, after(0), 60).unwrap());
        }
        assert_eq!(free_at, Some(after(60)));
        assert_eq!(count(free_at, after(0), 60), None, "the 61st at once");
        let next = count(free_at, after(1), 60).unwrap();
        assert_eq!(count(Some(next), after(1), 60), None, "one a minute");
        assert_eq!(count(Some(next), after(500), 60), Some(after(501)), "nothing is saved up");
    }

    #[test]
    fn clock_that_is_set_back_holds_nothing() {
        let full = after(600);
        assert_eq!(count(Some(full), after(0), 60), Some(after(1)));
    }

    proptest! {
        /// In any hour at most twice as many as in an hour: those at once, and those that came free since.
        #[test]
        fn no_hour_has_more_than_its_burst_and_its_share(
            per_hour in 1_i32..200,
            pauses in prop::collection::vec(0_i64..120, 1..400),
        ) {
            let (mut now, mut free_at, mut fired) = (DateTime::UNIX_EPOCH, None, Vec::new());
            for pause in pauses {
                now += TimeDelta::seconds(pause);
                if let Some(next) = count(free_at, now, per_hour) {
                    free_at = Some(next);
                    fired.push(now);
                }
            }
            for start in &fired {
                let within = fired.iter().filter(|at| *at >= start && **at - *start < WINDOW).count();
                prop_assert!(within <= 2 * usize::try_from(per_hour).unwrap());
            }
        }
    }
}
