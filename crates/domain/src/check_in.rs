//! Check-ins: times at which an agent wants to be woken.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, TimeDelta, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::local_time::{LocalTime, instant, within_hours};

/// Bytes of the reason of a check-in: the agent reads it when the time has come.
pub const MAX_REASON_BYTES: usize = 2_000;

/// When an agent wants to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At this time.
    At(DateTime<Utc>),
    /// When the clocks of its user show this.
    Local(NaiveDateTime),
    /// So many minutes from now.
    InMinutes(u32),
}

/// A check-in as a model asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCheckIn {
    /// When.
    pub when: Moment,
    /// What for.
    pub reason: String,
}

/// How many check-ins there may be, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckInLimits {
    /// Check-ins of one agentable that wait.
    pub max_pending: i64,
    /// Seconds from now on before which none is set: an agent must not keep itself busy.
    pub min_delay_s: i64,
    /// Seconds from now on after which none is set.
    pub max_delay_s: i64,
    /// None before this time of day, where the user lives: it waits until then.
    pub earliest: LocalTime,
    /// None from this time of day on: it waits for the next morning.
    pub latest: LocalTime,
}

/// A time at which no check-in can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMoment {
    /// It is past, or so near that the agent would only keep itself busy.
    #[error(
        "{} is too soon: it is {} now, and a check-in is at least {} away",
        rfc3339(wanted),
        rfc3339(now),
        span(*min_s)
    )]
    TooSoon {
        /// What was asked for.
        wanted: DateTime<Utc>,
        /// The limit.
        min_s: i64,
        /// The time now.
        now: DateTime<Utc>,
    },
    /// It is too far away.
    #[error(
        "{} is too far away: it is {} now, and a check-in is at most {} away",
        rfc3339(wanted),
        rfc3339(now),
        span(*max_s)
    )]
    TooFar {
        /// What was asked for.
        wanted: DateTime<Utc>,
        /// The limit.
        max_s: i64,
        /// The time now.
        now: DateTime<Utc>,
    },
    /// There is no such time there.
    #[error("there is no {} in {zone}: choose another time", wanted.format("%Y-%m-%dT%H:%M:%S"))]
    Nowhere {
        /// What was asked for.
        wanted: NaiveDateTime,
        /// The user's time zone.
        zone: Tz,
    },
}

fn rfc3339(time: &DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// In the largest unit that says it without a rest.
fn span(seconds: i64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds % size == 0).unwrap_or((1, "second"));
    let count = seconds / size;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// A wish that names no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnclearMoment {
    /// `at` is no time.
    #[error("`at` is `{given}`: write 2026-11-23T09:00 (local time) or 2026-11-23T09:00:00Z")]
    Unreadable {
        /// As given, shortened.
        given: String,
    },
    /// None of both, or both.
    #[error("give either `at` or `in_minutes`, and not both")]
    NotOne,
}

impl Moment {
    /// The moment somebody asks for: `at`, where the user lives unless it has an offset, or in so many minutes.
    ///
    /// # Errors
    /// [`UnclearMoment`]: what is wrong, and what is allowed.
    pub fn asked(at: Option<&str>, in_minutes: Option<u32>) -> Result<Self, UnclearMoment> {
        match (at, in_minutes) {
            (Some(at), None) => {
                let local = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
                let local = local.iter().find_map(|form| NaiveDateTime::parse_from_str(at, form).ok());
                let instant =
                    || DateTime::parse_from_rfc3339(at).ok().map(|at| Self::At(at.with_timezone(&Utc)));
                local
                    .map(Self::Local)
                    .or_else(instant)
                    .ok_or_else(|| UnclearMoment::Unreadable { given: at.chars().take(40).collect() })
            }
            (None, Some(minutes)) => Ok(Self::InMinutes(minutes)),
            _ => Err(UnclearMoment::NotOne),
        }
    }

    /// When that is for a user in `zone`, moved to the morning if it falls into their night.
    ///
    /// # Errors
    /// [`InvalidMoment`]: what is wrong, and what is allowed.
    pub fn resolve(
        self,
        limits: &CheckInLimits,
        zone: Tz,
        now: DateTime<Utc>,
    ) -> Result<DateTime<Utc>, InvalidMoment> {
        let wanted = match self {
            Self::At(at) => at,
            Self::Local(local) => {
                instant(zone, local).ok_or(InvalidMoment::Nowhere { wanted: local, zone })?
            }
            Self::InMinutes(minutes) => now + TimeDelta::minutes(minutes.into()),
        };
        let (min_s, max_s) = (limits.min_delay_s, limits.max_delay_s);
        if wanted < now + TimeDelta::seconds(min_s) {
            return Err(InvalidMoment::TooSoon { wanted, min_s, now });
        }
        if wanted > now + TimeDelta::seconds(max_s) {
            return Err(InvalidMoment::TooFar { wanted, max_s, now });
        }
        Ok(within_hours(zone, limits.earliest, limits.latest, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_local_or_has_an_offset_and_anything_else_is_told_both() {
        let at = |text: &str| Moment::asked(Some(text), None);
        assert_eq!(at("2026-11-23T09:00").unwrap(), Moment::Local("2026-11-23T09:00:00".parse().unwrap()));
        assert_eq!(
            at("2026-11-23T09:00:00+01:00").unwrap(),
            Moment::At("2026-11-23T08:00:00Z".parse().unwrap())
        );
        assert_eq!(Moment::asked(None, Some(5)).unwrap(), Moment::InMinutes(5));
        assert!(at("tomorrow").unwrap_err().to_string().contains("2026-11-23T09:00:00Z"));
        for (given, minutes) in [(None, None), (Some("2026-11-23T09:00"), Some(5))] {
            assert_eq!(Moment::asked(given, minutes).unwrap_err(), UnclearMoment::NotOne);
        }
    }

    #[test]
    fn a_moment_is_where_the_user_lives_neither_too_soon_nor_too_far_and_not_at_night() {
        let limits = CheckInLimits {
            max_pending: 3,
            min_delay_s: 300,
            max_delay_s: 86_400,
            earliest: "07:00".parse().unwrap(),
            latest: "22:00".parse().unwrap(),
        };
        let now: DateTime<Utc> = "2026-11-22T12:00:00Z".parse().unwrap();
        let resolve = |moment: Moment| moment.resolve(&limits, Tz::Europe__Berlin, now);
        let local = |text: &str| Moment::Local(text.parse().unwrap());
        assert_eq!(resolve(Moment::InMinutes(5)).unwrap(), now + TimeDelta::minutes(5));
        assert_eq!(resolve(local("2026-11-22T18:30:00")).unwrap().to_rfc3339(), "2026-11-22T17:30:00+00:00");
        assert_eq!(resolve(local("2026-11-22T23:30:00")).unwrap().to_rfc3339(), "2026-11-23T06:00:00+00:00");
        assert!(matches!(resolve(Moment::InMinutes(4)), Err(InvalidMoment::TooSoon { .. })));
        assert!(matches!(resolve(Moment::At(now - TimeDelta::days(1))), Err(InvalidMoment::TooSoon { .. })));
        assert!(matches!(resolve(Moment::InMinutes(1441)), Err(InvalidMoment::TooFar { .. })));
        assert_eq!(
            resolve(Moment::InMinutes(4)).unwrap_err().to_string(),
            "2026-11-22T12:04:00Z is too soon: it is 2026-11-22T12:00:00Z now, and a check-in is at least 5 minutes away"
        );
        assert!(resolve(Moment::InMinutes(1441)).unwrap_err().to_string().ends_with("at most 1 day away"));
    }
}
