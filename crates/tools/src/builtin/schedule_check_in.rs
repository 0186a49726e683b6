//! `schedule_check_in`: the agent wakes itself at a time it chooses.

use chrono::{DateTime, NaiveDateTime, Utc};
use houston_domain::check_in::{MAX_REASON_BYTES, Moment, WantedCheckIn};
use houston_domain::tool_call::{EffectClass, Record, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "schedule_check_in";

/// Sets a check-in. A row of Houston's: exactly once. Where the user lives, and what is too soon, others know.
#[derive(Debug)]
pub(super) struct ScheduleCheckIn(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    at: Option<String>,
    in_minutes: Option<u32>,
    reason: String,
}

impl Default for ScheduleCheckIn {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description:
                "Wake yourself later, once, to look after something: give either `at` or `in_minutes`."
                    .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "at": {"type": "string", "description":
                        "The user's local time, as 2026-11-23T09:00, or with an offset, as 2026-11-23T09:00:00Z."},
                    "in_minutes": {"type": "integer", "minimum": 1, "description": "So many minutes from now."},
                    "reason": {"type": "string", "description":
                        "What to do then. You will read it when you wake."},
                },
                "required": ["reason"],
                "additionalProperties": false,
            }),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

fn moment(at: Option<String>, in_minutes: Option<u32>) -> Result<Moment, InvalidInput> {
    match (at, in_minutes) {
        (Some(at), None) => {
            let local = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
            let local = local.iter().find_map(|form| NaiveDateTime::parse_from_str(&at, form).ok());
            let instant =
                || DateTime::parse_from_rfc3339(&at).ok().map(|at| Moment::At(at.with_timezone(&Utc)));
            local.map(Moment::Local).or_else(instant).ok_or_else(|| {
                let at: String = at.chars().take(40).collect();
                InvalidInput(format!(
                    "{NAME}: `at` is `{at}`: write 2026-11-23T09:00 (local time) or 2026-11-23T09:00:00Z"
                ))
            })
        }
        (None, Some(minutes)) => Ok(Moment::InMinutes(minutes)),
        _ => Err(InvalidInput(format!("{NAME}: give either `at` or `in_minutes`, and not both"))),
    }
}

impl Tool for ScheduleCheckIn {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { at, in_minutes, reason } = input::read(NAME, input)?;
        let when = moment(at, in_minutes)?;
        let reason = input::text(NAME, "reason", reason, MAX_REASON_BYTES)?;
        Ok(Plan::Record(Record::ScheduleCheckIn(WantedCheckIn { when, reason })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_local_or_has_an_offset_and_anything_else_is_told_both() {
        let at = |text: &str| moment(Some(text.to_owned()), None);
        assert_eq!(at("2026-11-23T09:00").unwrap(), Moment::Local("2026-11-23T09:00:00".parse().unwrap()));
        assert_eq!(
            at("2026-11-23T09:00:00+01:00").unwrap(),
            Moment::At("2026-11-23T08:00:00Z".parse().unwrap())
        );
        assert_eq!(moment(None, Some(5)).unwrap(), Moment::InMinutes(5));
        assert!(at("tomorrow").unwrap_err().0.contains("2026-11-23T09:00:00Z"));
        for (given, minutes) in [(None, None), (Some("2026-11-23T09:00".to_owned()), Some(5))] {
            assert!(moment(given, minutes).unwrap_err().0.contains("either"));
        }
    }
}
