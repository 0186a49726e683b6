//! Times of day in a user's time zone, and their next occurrence.
//!
//! # Daylight saving
//! A time of day that the clocks skip means the first minute after the gap; one that occurs twice means its first
//! occurrence. So every time of day occurs exactly once a day. A date that a country skipped (30 December 2011 in
//! Samoa) has no times.

use std::fmt;
use std::str::FromStr;

use chrono::{
    DateTime, Days, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike, Utc,
};
use chrono_tz::Tz;

/// A time of day with a resolution of one minute, as in `07:30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(NaiveTime);

impl FromStr for LocalTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = NaiveTime::parse_from_str(text, "%H:%M").ok().filter(|_| text.len() == 5);
        time.map(Self).ok_or_else(|| format!("`{text:.20}` is not a time of day from `00:00` to `23:59`"))
    }
}

impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
    }
}

as_text!(LocalTime);

/// A local time, as `2026-12-01T15:00` or `2026-12-01 15:00`, each also with seconds.
pub fn parse_local(text: &str) -> Option<NaiveDateTime> {
    let forms = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"];
    forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
}

/// The time zone with this IANA name; UTC if the name is unknown.
pub fn parse_zone(name: &str) -> Tz {
    name.parse().unwrap_or(Tz::UTC)
}

/// The first instant at which the clocks of `zone` are at `local`, or the end of the gap if they skip it. `None` if
/// they skip the whole day.
pub fn instant(zone: Tz, local: NaiveDateTime) -> Option<DateTime<Utc>> {
    let mut candidate = local;
    loop {
        match zone.from_local_datetime(&candidate) {
            LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => return Some(at.to_utc()),
            LocalResult::None => candidate += TimeDelta::minutes(1),
        }
        // A gap may end with the day, as in Scoresbysund; one that begins with it, too, is the whole day.
        let is_over = candidate.date() != local.date();
        if is_over && zone.from_local_datetime(&local.date().and_time(NaiveTime::MIN)) == LocalResult::None {
            return None;
        }
    }
}

/// The first of `times` in `zone` after `after`; `None` if `times` is empty.
pub fn next_after(zone: Tz, times: &[LocalTime], after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let today = after.with_timezone(&zone).date_naive();
    // Includes yesterday, because clocks may go back over midnight, and extra days, because a date may be skipped.
    let days = (0..5)
        .filter_map(|day| today.pred_opt().and_then(|from: NaiveDate| from.checked_add_days(Days::new(day))));
    days.flat_map(|day| times.iter().filter_map(move |time| instant(zone, day.and_time(time.0))))
        .filter(|at| *at > after)
        .min()
}

/// `at`, if it is between `earliest` and `latest` in `zone`; otherwise the next occurrence of `earliest` after it.
pub fn within_hours(zone: Tz, earliest: LocalTime, latest: LocalTime, at: DateTime<Utc>) -> DateTime<Utc> {
    let local = at.with_timezone(&zone).time();
    if (earliest.0..latest.0).contains(&local) {
        return at;
    }
    next_after(zone, &[earliest], at).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn times(texts: &[&str]) -> Vec<LocalTime> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn skipped_times_move_and_repeated_times_occur_once() {
        let next = |zone: Tz, time: &str, after: &str| next_after(zone, &times(&[time]), at(after)).unwrap();
        use chrono_tz::{America::New_York, Australia::Lord_Howe, Europe::Berlin, Pacific::Apia};
        // 29 March 2026: 02:00 becomes 03:00.
        assert_eq!(next(Berlin, "02:30", "2026-03-28T23:00:00Z"), at("2026-03-29T01:00:00Z"));
        assert_eq!(next(Berlin, "02:30", "2026-03-29T01:00:00Z"), at("2026-03-30T00:30:00Z"));
        // 25 October 2026: 03:00 becomes 02:00.
        assert_eq!(next(Berlin, "02:30", "2026-10-24T22:00:00Z"), at("2026-10-25T00:30:00Z"));
        assert_eq!(next(Berlin, "02:30", "2026-10-25T00:30:00Z"), at("2026-10-26T01:30:00Z"));
        assert_eq!(next(New_York, "07:00", "2026-03-08T00:00:00Z"), at("2026-03-08T11:00:00Z"));
        // Lord Howe Island shifts by half an hour.
        assert_eq!(next(Lord_Howe, "02:15", "2026-10-03T10:00:00Z"), at("2026-10-03T15:30:00Z"));
        // Samoa skipped 30 December 2011.
        assert_eq!(next(Apia, "07:00", "2011-12-29T18:00:00Z"), at("2011-12-30T17:00:00Z"));
        assert_eq!(next_after(Berlin, &[], at("2026-01-01T00:00:00Z")), None);
    }

    #[test]
    fn times_at_night_move_to_the_morning() {
        let [earliest, latest] = times(&["07:00", "22:00"])[..] else { unreachable!() };
        let moved = |text| within_hours(Tz::Europe__Berlin, earliest, latest, at(text));
        assert_eq!(moved("2026-11-22T10:00:00Z"), at("2026-11-22T10:00:00Z"));
        assert_eq!(moved("2026-11-22T21:00:00Z"), at("2026-11-23T06:00:00Z"), "22:00 is too late");
        assert_eq!(moved("2026-11-22T02:00:00Z"), at("2026-11-22T06:00:00Z"));
    }

    #[test]
    fn times_of_day_have_one_spelling() {
        assert_eq!("07:05".parse::<LocalTime>().unwrap().to_string(), "07:05");
        for bad in ["7:05", "24:00", "07:60", "0705", "", "noon"] {
            assert!(bad.parse::<LocalTime>().unwrap_err().to_string().contains("23:59"), "{bad}");
        }
    }

    proptest! {
        /// From tick to tick over a year and a half: ticks increase, each is at its time of day or right after a gap,
        /// and every time of every date occurs exactly once.
        #[test]
        fn every_time_of_day_occurs_once_a_day(
            zone in proptest::sample::select(&chrono_tz::TZ_VARIANTS[..]),
            mut minutes in proptest::collection::btree_set(0u32..1440, 1..4),
            begin in 0i64..2_000_000_000,
        ) {
            let of = |minute: u32| NaiveTime::from_num_seconds_from_midnight_opt(minute * 60, 0).unwrap();
            let times: Vec<LocalTime> = minutes.iter().map(|minute| LocalTime(of(*minute))).collect();
            let mut now = DateTime::from_timestamp(begin, 0).unwrap();
            let first = now.with_timezone(&zone).date_naive();
            let mut ticks = Vec::new();
            for _ in 0..(500 * times.len()) {
                let next = next_after(zone, &times, now).unwrap();
                prop_assert!(next > now);
                ticks.push(next);
                now = next;
            }
            let last = now.with_timezone(&zone).date_naive();
            // The expected instants, computed day by day, without `next_after`.
            let mut day = first.succ_opt().unwrap();
            while day < last {
                let mut wanted: Vec<_> = minutes.iter().filter_map(|minute| instant(zone, day.and_time(of(*minute)))).collect();
                wanted.dedup();
                for at in wanted {
                    // They increase, so it occurs once.
                    prop_assert!(ticks.binary_search(&at).is_ok(), "{} in {}", at, zone);
                    let local = at.with_timezone(&zone).naive_local();
                    let exact = minutes.iter().any(|minute| local.time() == of(*minute));
                    let before = at - TimeDelta::seconds(1);
                    let skipped = at.with_timezone(&zone).naive_local() - before.with_timezone(&zone).naive_local();
                    prop_assert!(exact || skipped > TimeDelta::seconds(1), "{} in {}", at, zone);
                }
                day = day.succ_opt().unwrap();
            }
            minutes.clear();
        }
    }
}
