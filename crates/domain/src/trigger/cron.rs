//! Cron expressions with a time zone.
//!
//! The expression chooses times of the clock on the wall; which instants these are is said by [`local_time`], as for feeds: a
//! time that the clocks skip means the first minute after the gap, one that occurs twice its first occurrence. So `30 2 * * *`
//! fires on each day exactly once.
//!
//! [`local_time`]: crate::local_time

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use super::Misfire;
use crate::local_time::instant;
use crate::setting::{WrongSetting, require};

/// Maximum length of an expression, in bytes.
const MAX_BYTES: usize = 200;
/// How many times of the clock are looked at for the next instant: those of a skipped day, minute by minute, and some.
const MAX_TIMES: usize = 3_000;

/// A cron expression with its time zone.
#[derive(Debug, Clone)]
pub struct CronRule {
    cron: Cron,
    /// The time zone.
    pub zone: Tz,
    misfire: Misfire,
}

/// What happens at a time that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Whether the trigger fires.
    pub fires: bool,
    /// When it is due next.
    pub next: Option<DateTime<Utc>>,
}

impl CronRule {
    pub(super) fn new(cron: &str, zone: &str, misfire: Misfire) -> Result<Self, WrongSetting> {
        let zone = zone.parse().map_err(|_| {
            WrongSetting::new("/zone", "must be the IANA name of a time zone, such as Europe/Berlin or UTC")
        })?;
        let form = "must have five fields: minute, hour, day of the month, month, day of the week, as in `30 7 * * 1-5`";
        require(cron.len() <= MAX_BYTES && cron.split_ascii_whitespace().count() == 5, "/cron", form)?;
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron =
            parser.parse(cron).map_err(|error| WrongSetting::new("/cron", format!("{error}; it {form}")))?;
        Ok(Self { cron, zone, misfire })
    }

    /// The first instant after `after`; `None` when none comes.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // The clock on the wall, as if it had no time zone.
        let mut wall = after.with_timezone(&self.zone).naive_local().trunc_subsecs(0).and_utc();
        for _ in 0..MAX_TIMES {
            wall = self.cron.find_next_occurrence(&wall, false).ok()?;
            match instant(self.zone, wall.naive_utc()) {
                Some(at) if at > after => return Some(at),
                _ => {}
            }
        }
        None
    }

    /// What happens at `now`, when the trigger was due at `due`. A time is missed after `grace`.
    pub fn due(&self, due: DateTime<Utc>, now: DateTime<Utc>, grace: TimeDelta) -> Due {
        let is_missed = now - due > grace;
        let fires = !is_missed || self.misfire == Misfire::Once;
        Due { fires, next: self.next_after(due.max(now)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(cron: &str, zone: &str) -> CronRule {
        CronRule::new(cron, zone, Misfire::Once).unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn times(cron: &str, zone: &str, from: &str, until: &str) -> Vec<DateTime<Utc>> {
        let rule = rule(cron, zone);
        let next = |after: &DateTime<Utc>| rule.next_after(*after);
        let all = std::iter::successors(next(&at(from)), next);
        all.take_while(|time| *time < at(until)).collect()
    }

    #[test]
    fn skipped_times_come_after_the_gap() {
        for (cron, zone, from, until, expected) in [
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-03-28T12:00:00Z",
                "2026-03-29T12:00:00Z",
                "2026-03-29T01:00:00Z",
            ),
            (
                "30 2 * * *",
                "America/New_York",
                "2026-03-07T12:00:00Z",
                "2026-03-08T12:00:00Z",
                "2026-03-08T07:00:00Z",
            ),
            (
                "15 2 * * *",
                "Australia/Lord_Howe",
                "2026-10-03T02:00:00Z",
                "2026-10-04T02:00:00Z",
                "2026-10-03T15:30:00Z",
            ),
            (
                "30 0 * * *",
                "Africa/Cairo",
                "2026-04-23T12:00:00Z",
                "2026-04-24T12:00:00Z",
                "2026-04-23T22:00:00Z",
            ),
            (
                "30 2 * * *",
                "America/Santiago",
                "2026-09-05T12:00:00Z",
                "2026-09-06T12:00:00Z",
                "2026-09-06T05:30:00Z",
            ),
            // The last hour of a day.
            (
                "0 23 * * *",
                "America/Scoresbysund",
                "2025-03-29T12:00:00Z",
                "2025-03-30T12:00:00Z",
                "2025-03-30T01:00:00Z",
            ),
        ] {
            assert_eq!(times(cron, zone, from, until), [at(expected)], "{zone}");
        }
    }

    #[test]
    fn repeated_times_come_once() {
        for (cron, zone, from, until, expected) in [
            (
                "30 2 * * *",
                "Europe/Berlin",
                "2026-10-24T12:00:00Z",
                "2026-10-25T12:00:00Z",
                "2026-10-25T00:30:00Z",
            ),
            (
                "30 1 * * *",
                "America/New_York",
                "2026-10-31T12:00:00Z",
                "2026-11-01T12:00:00Z",
                "2026-11-01T05:30:00Z",
            ),
            (
                "45 1 * * *",
                "Australia/Lord_Howe",
                "2026-04-04T02:00:00Z",
                "2026-04-05T02:00:00Z",
                "2026-04-04T14:45:00Z",
            ),
            (
                "30 1 * * *",
                "Europe/London",
                "2026-10-24T12:00:00Z",
                "2026-10-25T12:00:00Z",
                "2026-10-25T00:30:00Z",
            ),
            (
                "30 23 * * *",
                "America/Santiago",
                "2026-04-04T12:00:00Z",
                "2026-04-05T12:00:00Z",
                "2026-04-05T02:30:00Z",
            ),
        ] {
            assert_eq!(times(cron, zone, from, until), [at(expected)], "{zone}");
        }
        // From within the second pass, the rest of the day follows.
        let berlin = rule("*/30 * * * *", "Europe/Berlin");
        assert_eq!(berlin.next_after(at("2026-10-25T01:10:00Z")), Some(at("2026-10-25T02:00:00Z")));
    }

    #[test]
    fn dates_that_never_come_are_found() {
        let now = at("2026-01-01T00:00:00Z");
        for cron in ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *"] {
            assert_eq!(rule(cron, "UTC").next_after(now), None, "{cron}");
        }
        let leap = rule("0 0 29 2 *", "UTC");
        assert_eq!(leap.next_after(now), Some(at("2028-02-29T00:00:00Z")));
        let last = rule("0 0 L * *", "UTC");
        assert_eq!(last.next_after(at("2026-02-01T00:00:00Z")), Some(at("2026-02-28T00:00:00Z")));
    }

    #[test]
    fn missed_times_fire_once_or_not_at_all() {
        let (due, grace) = (at("2026-01-01T10:00:00Z"), TimeDelta::seconds(60));
        let after = |misfire, minutes| {
            let rule = CronRule::new("*/10 * * * *", "UTC", misfire).unwrap();
            rule.due(due, due + TimeDelta::minutes(minutes), grace)
        };
        let next = Some(at("2026-01-01T11:10:00Z"));
        assert_eq!(after(Misfire::Once, 61), Due { fires: true, next });
        assert_eq!(after(Misfire::Skip, 61), Due { fires: false, next });
        let next = Some(at("2026-01-01T10:10:00Z"));
        assert_eq!(after(Misfire::Skip, 0), Due { fires: true, next });
        // A clock that goes back does not bring a time again.
        assert_eq!(after(Misfire::Once, -30).next, next);
    }

    proptest! {
        /// Each day has the time exactly once, in every zone.
        #[test]
        fn a_daily_time_comes_once_a_day(
            zone in proptest::sample::select(&chrono_tz::TZ_VARIANTS[..]),
            minute in 0_u32..1440,
            begin in 1_600_000_000_i64..2_000_000_000,
        ) {
            let rule = rule(&format!("{} {} * * *", minute % 60, minute / 60), zone.name());
            let time = chrono::NaiveTime::from_num_seconds_from_midnight_opt(minute * 60, 0).unwrap();
            let mut now = DateTime::from_timestamp(begin, 0).unwrap();
            let mut day = None;
            for _ in 0..400 {
                let next = rule.next_after(now).unwrap();
                let local = next.with_timezone(&zone).date_naive();
                let expected = day.map_or(local, |day: chrono::NaiveDate| day.succ_opt().unwrap());
                prop_assert_eq!(Some(next), instant(zone, expected.and_time(time)), "{}", zone);
                (now, day) = (next, Some(expected));
            }
        }
    }
}
