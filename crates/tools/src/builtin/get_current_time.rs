//! `get_current_time`: the current time, in the given time zone or the user's.

use chrono::SecondsFormat;
use houston_domain::capability::Capability;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolResponse};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "get_current_time";

/// Returns the current time.
#[derive(Debug)]
pub(super) struct GetCurrentTime(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    time_zone: Option<String>,
}

impl Default for GetCurrentTime {
    fn default() -> Self {
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "The current date, weekday and time.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "time_zone": {"type": "string", "description": "IANA name such as Europe/Berlin; the \
                                                                    user's when left out."},
                },
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for GetCurrentTime {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn capability(&self) -> Option<Capability> {
        Some(Capability::Time)
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let zone = match input::read::<Input>(NAME, input)?.time_zone {
            Some(name) => name.parse().map_err(|_| {
                InvalidInput(format!(
                    "{NAME}: `{name}` is not a time zone; use an IANA name such as Europe/Berlin or UTC"
                ))
            })?,
            None => context.zone,
        };
        let now = context.now.with_timezone(&zone);
        let text =
            format!("{} ({})", now.to_rfc3339_opts(SecondsFormat::Secs, true), now.format("%A, %H:%M %Z"));
        Ok(Plan::Answer(ToolResponse::success(text)))
    }
}
