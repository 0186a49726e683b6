//! Arithmetic with dates and times, which models are bad at: "in three weeks", the days between two dates, weekdays.
//!
//! Years, months, weeks and days are those of the calendar of a time zone: a day may have 23 or 25 hours. Hours, minutes and
//! seconds are exact. A day of the month that does not exist becomes the last one: 31 January and a month is 28 February.

use chrono::{
    DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, SecondsFormat, TimeDelta, Utc, Weekday,
};
use chrono_tz::Tz;

use crate::local_time::{instant, parse_local};

/// A day or a time in a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A whole day.
    Day(NaiveDate),
    /// An instant.
    Time(DateTime<Utc>),
}

/// How far from a point: `3 weeks -2 days`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    months: i64,
    days: i64,
    workdays: i64,
    seconds: i64,
}

/// The largest number before a unit.
const MAX_COUNT: i64 = 1_000_000;
/// The largest number of days from Monday to Friday.
const MAX_WORKDAYS: i64 = 100_000;

impl Point {
    /// Parses `now`, `today`, a day, a local time of `zone`, or a time with an offset.
    pub fn parse(text: &str, now: DateTime<Utc>, zone: Tz) -> Result<Self, String> {
        let text = text.trim();
        let local = || instant(zone, parse_local(text)?).map(Self::Time);
        let point = match text {
            "now" => Some(Self::Time(now)),
            "today" => Some(Self::Day(now.with_timezone(&zone).date_naive())),
            text => {
                NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(Self::Day).or_else(local).or_else(|| {
                    DateTime::parse_from_rfc3339(text).ok().map(|at| Self::Time(at.with_timezone(&Utc)))
                })
            }
        };
        point.ok_or_else(|| {
            format!(
                "`{text:.60}` is not a day or a time: write now, today, 2026-12-01, 2026-12-01T15:00 (local time) or \
                 2026-12-01T15:00:00Z"
            )
        })
    }

    /// The point and its weekday, week and day of the year.
    pub fn describe(self, zone: Tz) -> String {
        let (text, day) = match self {
            Self::Day(day) => (day.format("%Y-%m-%d").to_string(), day),
            Self::Time(at) => {
                let local = at.with_timezone(&zone);
                let text =
                    format!("{} {}", local.to_rfc3339_opts(SecondsFormat::Secs, true), local.format("%Z"));
                (text, local.date_naive())
            }
        };
        let (week, ordinal) = (day.iso_week().week(), day.ordinal());
        format!("{text} ({}, week {week}, day {ordinal} of the year)", day.format("%A"))
    }

    /// The point that is `span` later. A day stays a day unless the span has hours, minutes or seconds.
    ///
    /// # Errors
    /// When it is outside of the calendar.
    pub fn plus(self, span: Span, zone: Tz) -> Result<Self, String> {
        let added = match self {
            Self::Day(day) if span.seconds == 0 => shifted(day, span).map(Self::Day),
            Self::Day(day) => {
                let start = shifted(day, span).and_then(|day| instant(zone, day.and_time(NaiveTime::MIN)));
                start
                    .and_then(|at| at.checked_add_signed(TimeDelta::try_seconds(span.seconds)?))
                    .map(Self::Time)
            }
            Self::Time(at) => {
                let local = at.with_timezone(&zone).naive_local();
                let is_exact = Span { seconds: 0, ..span } == Span::default();
                let moved =
                    shifted(local.date(), span).and_then(|day| instant(zone, day.and_time(local.time())));
                // Without a change of the day, a time that occurs twice stays the one that it is.
                let moved = if is_exact { Some(at) } else { moved };
                moved
                    .and_then(|at| at.checked_add_signed(TimeDelta::try_seconds(span.seconds)?))
                    .map(Self::Time)
            }
        };
        added.ok_or_else(|| "the result is outside of the calendar".to_owned())
    }

    /// How far `other` is after this point: in days, in years, months and days, in days from Monday to Friday; between times
    /// exactly as well.
    pub fn until(self, other: Self, zone: Tz) -> String {
        let (from, to) = (self.day(zone), other.day(zone));
        let days = (to - from).num_days();
        let mut text = format!("{days} days");
        if days.abs() >= 7 {
            text.push_str(&format!(" = {} weeks and {} days", days / 7, days % 7));
        }
        let (early, late) = if from <= to { (from, to) } else { (to, from) };
        let months = whole_months(early, late);
        if months > 0 {
            let rest = early.checked_add_months(Months::new(months)).map_or(0, |at| (late - at).num_days());
            text.push_str(&format!(" = {} years, {} months and {rest} days", months / 12, months % 12));
        }
        text.push_str(&format!("; {} of them from Monday to Friday", workdays_between(early, late)));
        if let (Self::Time(from), Self::Time(to)) = (self, other) {
            let seconds = (to - from).num_seconds();
            let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            text.push_str(&format!("; exactly {hours} hours, {minutes} minutes and {rest} seconds"));
        }
        text
    }

    fn day(self, zone: Tz) -> NaiveDate {
        match self {
            Self::Day(day) => day,
            Self::Time(at) => at.with_timezone(&zone).date_naive(),
        }
    }
}

impl Span {
    /// Parses numbers with units: `1 year 2 months`, `-90 minutes`, `10 workdays`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = "write numbers with units, as `3 weeks -2 days`: years, months, weeks, days, workdays, hours, \
                       minutes, seconds";
        let given: String = text.chars().take(60).collect();
        let fail = || format!("`{given}` is not a span: {allowed}");
        let text = text.to_lowercase().replace([','], " ");
        let (mut span, mut rest, mut is_empty) = (Self::default(), text.trim(), true);
        while !rest.is_empty() {
            rest = rest.strip_prefix("and ").unwrap_or(rest).trim_start();
            let sign = if rest.starts_with('-') { -1 } else { 1 };
            rest = rest.trim_start_matches(['-', '+']).trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let count: i64 = rest[..end].parse().ok().filter(|count| *count <= MAX_COUNT).ok_or_else(fail)?;
            rest = rest[end..].trim_start();
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            span.add(sign * count, &rest[..end]).ok_or_else(fail)?;
            rest = rest[end..].trim_start();
            is_empty = false;
        }
        if is_empty || span.workdays.abs() > MAX_WORKDAYS { Err(fail()) } else { Ok(span) }
    }

    fn add(&mut self, count: i64, unit: &str) -> Option<()> {
        let (field, each) = match unit.strip_suffix('s').unwrap_or(unit) {
            "year" | "y" => (&mut self.months, 12),
            "month" => (&mut self.months, 1),
            "week" | "w" => (&mut self.days, 7),
            "day" | "d" => (&mut self.days, 1),
            "workday" => (&mut self.workdays, 1),
            "hour" | "h" => (&mut self.seconds, 3600),
            "minute" | "min" => (&mut self.seconds, 60),
            "second" | "sec" | "" if !unit.is_empty() => (&mut self.seconds, 1),
            _ => return None,
        };
        *field += count * each;
        Some(())
    }
}

/// The day after the months, days and days from Monday to Friday of a span.
fn shifted(day: NaiveDate, span: Span) -> Option<NaiveDate> {
    let months = Months::new(u32::try_from(span.months.unsigned_abs()).ok()?);
    let day = if span.months < 0 { day.checked_sub_months(months)? } else { day.checked_add_months(months)? };
    let days = Days::new(span.days.unsigned_abs());
    let mut day = if span.days < 0 { day.checked_sub_days(days)? } else { day.checked_add_days(days)? };
    let mut left = span.workdays.unsigned_abs();
    while left > 0 {
        day = if span.workdays < 0 { day.pred_opt()? } else { day.succ_opt()? };
        left -= u64::from(is_workday(day));
    }
    Some(day)
}

fn is_workday(day: NaiveDate) -> bool {
    !matches!(day.weekday(), Weekday::Sat | Weekday::Sun)
}

/// Days from Monday to Friday after `early`, up to `late`.
fn workdays_between(early: NaiveDate, late: NaiveDate) -> i64 {
    let days = (late - early).num_days();
    let start = early.weekday().num_days_from_monday();
    let rest = (1..=days % 7).filter(|after| (i64::from(start) + after) % 7 < 5).count();
    days / 7 * 5 + i64::try_from(rest).unwrap_or(0)
}

/// Whole months between two days.
fn whole_months(early: NaiveDate, late: NaiveDate) -> u32 {
    let months = |day: NaiveDate| i64::from(day.year()) * 12 + i64::from(day.month0());
    let most = u32::try_from(months(late) - months(early)).unwrap_or(0);
    let fits = |months: u32| early.checked_add_months(Months::new(months)).is_some_and(|at| at <= late);
    if fits(most) { most } else { most.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ZONE: Tz = chrono_tz::Europe::Berlin;

    fn point(text: &str) -> Point {
        let now = "2026-11-25T09:00:00Z".parse().unwrap();
        Point::parse(text, now, ZONE).unwrap()
    }

    fn plus(from: &str, span: &str) -> String {
        point(from).plus(Span::parse(span).unwrap(), ZONE).unwrap().describe(ZONE)
    }

    #[test]
    fn spans_are_added_by_the_calendar() {
        for (from, span, expected) in [
            ("today", "3 weeks", "2026-12-16 (Wednesday, week 51, day 350 of the year)"),
            ("2026-01-31", "1 month", "2026-02-28 (Saturday"),
            ("2024-02-29", "-1 year", "2023-02-28 (Tuesday"),
            ("2026-11-27", "1 workday", "2026-11-30 (Monday"),
            ("2026-11-30", "-1 workdays", "2026-11-27 (Friday"),
            ("2026-12-01", "1 week -2 days and 3 days", "2026-12-09 (Wednesday"),
            ("2026-12-01", "36 hours", "2026-12-02T12:00:00+01:00 CET (Wednesday"),
            ("now", "90min", "2026-11-25T11:30:00+01:00 CET (Wednesday"),
            // The clocks go back: the day has 25 hours.
            ("2026-10-24T12:00", "1 day", "2026-10-25T12:00:00+01:00 CET (Sunday"),
            ("2026-10-24T12:00", "24 hours", "2026-10-25T11:00:00+01:00 CET (Sunday"),
        ] {
            let result = plus(from, span);
            assert!(result.starts_with(expected), "{from} + {span}: {result}");
        }
        for wrong in ["", "soon", "3", "3 fortnights", "99999999 days", "three weeks", "- days"] {
            assert!(Span::parse(wrong).unwrap_err().contains("years, months"), "{wrong}");
        }
        assert!(point("2026-01-01").plus(Span::parse("999999 years").unwrap(), ZONE).is_err());
    }

    #[test]
    fn distances_are_counted_in_several_units() {
        let until = |from: &str, to: &str| point(from).until(point(to), ZONE);
        assert_eq!(
            until("2026-11-25", "2026-12-24"),
            "29 days = 4 weeks and 1 days; 21 of them from Monday to Friday"
        );
        assert_eq!(
            until("2024-02-29", "2026-11-25"),
            "1000 days = 142 weeks and 6 days = 2 years, 8 months and 27 days; 714 of them from Monday to Friday"
        );
        assert!(until("2026-12-24", "2026-11-25").starts_with("-29 days"));
        let exact = until("2026-10-25T00:00", "2026-10-26T00:00");
        assert!(exact.ends_with("exactly 25 hours, 0 minutes and 0 seconds"), "{exact}");
        assert!(
            Point::parse("Christmas", DateTime::UNIX_EPOCH, ZONE).unwrap_err().contains("2026-12-01T15:00")
        );
    }

    proptest! {
        /// Counting day by day.
        #[test]
        fn workdays_are_those_that_are_counted(start in 0..40_000_i64, days in 0..2_000_i64) {
            let early = NaiveDate::from_ymd_opt(1950, 1, 1).unwrap() + TimeDelta::days(start);
            let counted = (1..=days).filter(|nth| is_workday(early + TimeDelta::days(*nth))).count();
            let late = early + TimeDelta::days(days);
            prop_assert_eq!(workdays_between(early, late), i64::try_from(counted).unwrap());
        }

        #[test]
        fn nothing_a_model_sends_panics(span in "[-+ 0-9a-z,]{0,30}", from in "[-0-9T:Z]{0,25}") {
            if let (Ok(span), Ok(from)) = (Span::parse(&span), Point::parse(&from, DateTime::UNIX_EPOCH, ZONE)) {
                let _ = from.plus(span, ZONE).map(|to| from.until(to, ZONE));
            }
        }
    }
}
