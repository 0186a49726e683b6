//! Check-ins: times at which an agent asks to be woken.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, TimeDelta, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::id::CheckInId;
use crate::local_time::{LocalTime, instant, within_hours};
use crate::owner::Owner;
use crate::setting::{WrongSetting, positive, require};
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
        let reason = format_args!("must be before latest ({})", self.latest);
        require(self.earliest < self.latest, "/earliest", reason)?;
        let reason = format_args!("must be at most max_delay_s ({})", self.max_delay_s);
        require(self.min_delay_s <= self.max_delay_s, "/min_delay_s", reason)?;
        Ok(())
    }
}

fn rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Formats a duration in the largest unit that divides it, as in `5 minutes`.
fn span(seconds: i64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds % size == 0).unwrap_or((1, "second"));
    let count = seconds / size;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

impl Moment {
    /// Parses a requested moment: either `at`, in the user's time zone unless it has an offset, or `in_minutes`.
    pub fn parse(at: Option<&str>, in_minutes: Option<u32>) -> Result<Self, String> {
        match (at, in_minutes) {
            (Some(at), None) => {
                let local = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
                let local = local.iter().find_map(|form| NaiveDateTime::parse_from_str(at, form).ok());
                let instant =
                    || DateTime::parse_from_rfc3339(at).ok().map(|at| Self::At(at.with_timezone(&Utc)));
                let forms = "2026-11-23T09:00 (local time) or 2026-11-23T09:00:00Z";
                let wrong = || format!("`at` is `{at:.40}`, which is not a time: write {forms}");
                local.map(Self::Local).or_else(instant).ok_or_else(wrong)
            }
            (None, Some(minutes)) => Ok(Self::InMinutes(minutes)),
            _ => Err("give exactly one of `at` and `in_minutes`".to_owned()),
        }
    }

    /// The instant for a user in `zone`, moved to the morning if it falls into their night. The error says that it is too soon, so
    /// that the agent would keep itself busy, too far away, or does not exist in `zone`.
    pub fn resolve(
        self,
        limits: &CheckInLimits,
        zone: Tz,
        now: DateTime<Utc>,
    ) -> Result<DateTime<Utc>, String> {
        let wanted = match self {
            Self::At(at) => at,
            Self::Local(local) => instant(zone, local).ok_or_else(|| {
                let wanted = local.format("%Y-%m-%dT%H:%M:%S");
                format!("{wanted} does not exist in {zone}: choose another time")
            })?,
            Self::InMinutes(minutes) => now + TimeDelta::minutes(minutes.into()),
        };
        let (min_s, max_s) = (limits.min_delay_s, limits.max_delay_s);
        let outside = |which: &str, most: &str, limit| {
            let (wanted, now, limit) = (rfc3339(wanted), rfc3339(now), span(limit));
            Err(format!(
                "{wanted} is too {which}: it is {now} now, and a check-in must be at {most} {limit} away"
            ))
        };
        if wanted < now + TimeDelta::seconds(min_s) {
            return outside("soon", "least", min_s);
        }
        if wanted > now + TimeDelta::seconds(max_s) {
            return outside("far away", "most", max_s);
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
            assert!(Moment::parse(given, minutes).unwrap_err().starts_with("give exactly one"));
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
        assert!(resolve(Moment::At(now - TimeDelta::days(1))).unwrap_err().contains(" is too soon: "));
        assert_eq!(
            resolve(Moment::InMinutes(4)).unwrap_err().to_string(),
            "2026-11-22T12:04:00Z is too soon: it is 2026-11-22T12:00:00Z now, and a check-in must be at least 5 minutes away"
        );
        assert!(resolve(Moment::InMinutes(1441)).unwrap_err().to_string().ends_with("at most 1 day away"));
    }
}
