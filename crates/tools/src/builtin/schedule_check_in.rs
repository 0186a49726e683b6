//! `schedule_check_in`: the agent wakes itself at a time it chooses.

use houston_domain::check_in::{CheckInRequest, MAX_REASON_BYTES, Moment};
use houston_domain::id::CheckInId;
use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_store::check_in::CheckInRefusal;
use houston_store::record::RecordTx;
use serde::Deserialize;
use serde_json::{Value, json};

use super::manage_check_ins;
use crate::input;
use crate::record::{Record, RecordFuture};
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "schedule_check_in";

/// Creates a check-in. Written with the step: exactly once. The time is checked against the limits when it is written.
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
            }).into(),
            effect: EffectClass::Idempotent,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for ScheduleCheckIn {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, _context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { at, in_minutes, reason } = input::read(NAME, input)?;
        let invalid = |error| InvalidInput(format!("{NAME}: {error}"));
        let when = Moment::parse(at.as_deref(), in_minutes).map_err(invalid)?;
        let reason = input::text(NAME, "reason", reason, MAX_REASON_BYTES)?;
        Ok(Plan::record(Call(CheckInRequest { when, reason })))
    }
}

#[derive(Debug)]
struct Call(CheckInRequest);

impl Record for Call {
    fn apply<'t>(&'t self, mut tx: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async move {
            Ok(match tx.set_check_in(&self.0).await? {
                Ok(set) => {
                    let id = CheckInId(tx.ids().row);
                    ToolResponse::success(format!("Set {id} for {}.", set.local))
                }
                Err(refusal) => refused(&refusal),
            })
        })
    }
}

fn refused(refusal: &CheckInRefusal) -> ToolResponse {
    let (code, text) = match refusal {
        CheckInRefusal::Cancelled => {
            (ToolErrorCode::PermissionDenied, "this run is being cancelled: no check-in was set".to_owned())
        }
        CheckInRefusal::Archived => (
            ToolErrorCode::PermissionDenied,
            "this conversation is archived, only its user's messages wake it: no check-in was set".to_owned(),
        ),
        CheckInRefusal::Full { pending, most } => (
            ToolErrorCode::RateLimited,
            format!(
                "{pending} check-ins are set, and at most {most} are allowed: cancel one with {} first",
                manage_check_ins::NAME
            ),
        ),
        CheckInRefusal::Invalid(invalid) => (ToolErrorCode::ValidationError, invalid.to_string()),
    };
    ToolResponse::failure(code, text)
}
