//! Check-ins: times at which an agent asks to be woken.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, TimeDelta, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::id::CheckInId;
use crate::local_time::{LocalTime, instant, within_hours};
use crate::owner::Owner;
use crate::setting::{WrongSetting, positive};
use crate::time::Time;

/// Maximum length of the reason of a check-in, in bytes: the agent reads it when it is woken.
pub const MAX_REASON_BYTES: usize = 2_000;

/// When an agent asks to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At this instant.
    At(DateTime<Utc>),
    /// When it is this time in the user's time zone.
    Local(NaiveDateTime),
    /// This many minutes from now.
    InMinutes(u32),
}

/// A check-in that a model or a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckInRequest {
    /// When the agent is woken.
    pub when: Moment,
    /// Why; the agent reads it when it is woken.
    pub reason: String,
}

/// `[limits]` of `jobs/agent_check_in.toml`: how many check-ins are allowed, and when.
///
/// ```toml
/// [limits]
/// max_pending = 3
/// min_delay_s = 300
/// max_delay_s = 7_776_000
/// earliest = "07:00"
/// latest = "22:00"
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckInLimits {
    /// Pending check-ins of one agentable.
    #[serde(deserialize_with = "positive")]
    pub max_pending: i64,
    /// Minimum delay from now, in seconds: an agent must not keep itself busy.
    pub min_delay_s: i64,
    /// Maximum delay from now, in seconds.
    pub max_delay_s: i64,
    /// Start of the day in the user's time zone; an earlier check-in is moved to it.
    pub earliest: LocalTime,
    /// End of the day in the user's time zone; a check-in from then on is moved to the next morning.
    pub latest: LocalTime,
}

impl CheckInLimits {
    /// Checks that some delay and some time of day are allowed.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that leaves none.
    pub fn check(&self) -> Result<(), WrongSetting> {
        if self.earliest >= self.latest {
            let reason = format!("must be before latest ({})", self.latest);
            return Err(WrongSetting::new("/earliest", reason));
        }
        if self.min_delay_s > self.max_delay_s {
            let reason = format!("must be at most max_delay_s ({})", self.max_delay_s);
            return Err(WrongSetting::new("/min_delay_s", reason));
        }
        Ok(())
    }
}

/// A time that is not allowed for a check-in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMoment {
    /// It is in the past, or so soon that the agent would keep itself busy.
    #[error(
        "{} is too soon: it is {} now, and a check-in must be at least {} away",
        rfc3339(wanted),
        rfc3339(now),
        span(*min_s)
    )]
    TooSoon {
        /// The requested time.
        wanted: DateTime<Utc>,
        /// The minimum delay, in seconds.
        min_s: i64,
        /// The current time.
        now: DateTime<Utc>,
    },
    /// It is too far in the future.
    #[error(
        "{} is too far away: it is {} now, and a check-in must be at most {} away",
        rfc3339(wanted),
        rfc3339(now),
        span(*max_s)
    )]
    TooFar {
        /// The requested time.
        wanted: DateTime<Utc>,
        /// The maximum delay, in seconds.
        max_s: i64,
        /// The current time.
        now: DateTime<Utc>,
    },
    /// A local time that does not exist in the user's time zone.
    #[error("{} does not exist in {zone}: choose another time", wanted.format("%Y-%m-%dT%H:%M:%S"))]
    NonexistentLocalTime {
        /// The requested local time.
        wanted: NaiveDateTime,
        /// The user's time zone.
        zone: Tz,
    },
}

fn rfc3339(time: &DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Formats a duration in the largest unit that divides it, as in `5 minutes`.
fn span(seconds: i64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds % size == 0).unwrap_or((1, "second"));
    let count = seconds / size;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// A request that does not name a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnclearMoment {
    /// `at` is not a time.
    #[error(
        "`at` is `{given}`, which is not a time: write 2026-11-23T09:00 (local time) or 2026-11-23T09:00:00Z"
    )]
    Unreadable {
        /// The given text, shortened.
        given: String,
    },
    /// Neither `at` nor `in_minutes` is given, or both are.
    #[error("give exactly one of `at` and `in_minutes`")]
    NotOne,
}

impl Moment {
    /// Parses a requested moment: either `at`, in the user's time zone unless it has an offset, or `in_minutes`.
    ///
    /// # Errors
    /// [`UnclearMoment`] when `at` is not a time, or not exactly one of both is given.
    pub fn parse(at: Option<&str>, in_minutes: Option<u32>) -> Result<Self, UnclearMoment> {
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

    /// The instant for a user in `zone`, moved to the morning if it falls into their night.
    ///
    /// # Errors
    /// [`InvalidMoment`] when it is too soon, too far away, or does not exist in `zone`.
    pub fn resolve(
        self,
        limits: &CheckInLimits,
        zone: Tz,
        now: DateTime<Utc>,
    ) -> Result<DateTime<Utc>, InvalidMoment> {
        let wanted = match self {
            Self::At(at) => at,
            Self::Local(local) => {
                instant(zone, local).ok_or(InvalidMoment::NonexistentLocalTime { wanted: local, zone })?
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

/// A check-in.
///
/// ```json
/// {"id": "check_in_0190…", "goal_id": "goal_0190…", "reason": "Ask whether the tickets arrived",
///  "due_at": "2026-11-23T09:00:00.000Z", "created_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CheckInResponse))]
pub struct CheckIn {
    pub id: CheckInId,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub owner: Owner,
    /// What to do then; the agent reads it.
    pub reason: String,
    /// When the agent is woken.
    pub due_at: Time,
    pub created_at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_unless_they_have_an_offset() {
        let at = |text: &str| Moment::parse(Some(text), None);
        assert_eq!(at("2026-11-23T09:00").unwrap(), Moment::Local("2026-11-23T09:00:00".parse().unwrap()));
        assert_eq!(
            at("2026-11-23T09:00:00+01:00").unwrap(),
            Moment::At("2026-11-23T08:00:00Z".parse().unwrap())
        );
        assert_eq!(Moment::parse(None, Some(5)).unwrap(), Moment::InMinutes(5));
        assert!(at("tomorrow").unwrap_err().to_string().contains("2026-11-23T09:00:00Z"));
        for (given, minutes) in [(None, None), (Some("2026-11-23T09:00"), Some(5))] {
            assert_eq!(Moment::parse(given, minutes).unwrap_err(), UnclearMoment::NotOne);
        }
    }

    #[test]
    fn moments_respect_time_zone_delays_and_night() {
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
            "2026-11-22T12:04:00Z is too soon: it is 2026-11-22T12:00:00Z now, and a check-in must be at least 5 minutes away"
        );
        assert!(resolve(Moment::InMinutes(1441)).unwrap_err().to_string().ends_with("at most 1 day away"));
    }
}
