//! `date_math`: dates and times that follow from others.

use houston_domain::capability::Capability;
use houston_domain::date_math::{Point, Span};
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "date_math";

/// Computes with dates. Pure.
#[derive(Debug)]
pub(super) struct DateMath(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    from: Option<String>,
    add: Option<String>,
    to: Option<String>,
    time_zone: Option<String>,
}

impl Default for DateMath {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Compute with dates and times: `from` with its weekday, `from` plus `add`, or the distance from \
                          `from` to `to`."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "from": {"type": "string", "description":
                        "now (default), today, 2026-12-01, 2026-12-01T15:00, or with an offset."},
                    "add": {"type": "string", "description": "As `3 weeks -2 days`, `10 workdays`, `90 minutes`."},
                    "to": {"type": "string"},
                    "time_zone": {"type": "string", "description":
                        "IANA name of the zone that is computed and answered in; the user's when left out."},
                },
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for DateMath {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Calculation)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { from, add, to, time_zone } = input::read(NAME, input)?;
        let invalid = |reason: String| InvalidInput(format!("{NAME}: {reason}"));
        let zone = match time_zone {
            Some(name) => name.parse().map_err(|_| {
                invalid(format!("`{name}` is not a time zone; use an IANA name such as Europe/Berlin or UTC"))
            })?,
            None => context.zone,
        };
        let point = |text: &str| {
            // A time without an offset is one of the user's zone; the answer is in the other.
            Point::parse(text, context.now, context.zone).map_err(invalid)
        };
        let from = point(from.as_deref().unwrap_or("now"))?;
        let text = match (add, to) {
            (Some(_), Some(_)) => return Err(invalid("give either `add` or `to`, not both".to_owned())),
            (Some(add), None) => {
                let span = Span::parse(&add).map_err(invalid)?;
                from.plus(span, zone).map_err(invalid)?.describe(zone)
            }
            (None, Some(to)) => from.until(point(&to)?, zone),
            (None, None) => from.describe(zone),
        };
        Ok(Plan::Answer(ToolResponse::success(text)))
    }
}
