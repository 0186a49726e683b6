//! What models do badly by themselves: the time, dates, arithmetic, exact changes of texts.

use chrono::SecondsFormat;
use chrono_tz::Tz;
use houston_domain::date_math::{Point, Span};
use houston_domain::transform::{MAX_SEARCHED_BYTES, MAX_TEXT_BYTES, Operation, transform};
use houston_meter::Stopped;
use houston_sandbox::{Conversion, Converted};
use sha2::{Digest as _, Sha256};

use super::prelude::*;

built_in! {
    GetCurrentTime: "get_current_time", Read, capability Time;
    Calculate: "calculate", Read, capability Calculation;
    DateMath: "date_math", Read, capability Calculation;
    TransformText: "transform_text", Read;
}

/// The current date, weekday and time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetCurrentTime {
    /// IANA name such as Europe/Berlin; the user's when left out.
    time_zone: Option<String>,
}

impl BuiltIn for GetCurrentTime {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let now = context.now.with_timezone(&zone(self.time_zone.as_deref(), context)?);
        let text =
            format!("{} ({})", now.to_rfc3339_opts(SecondsFormat::Secs, true), now.format("%A, %H:%M %Z"));
        Ok(Plan::Answer(ToolResponse::success(text)))
    }
}

/// The zone with this name, or the user's.
fn zone(name: Option<&str>, context: &CallContext) -> Result<Tz, Refusal> {
    let Some(name) = name else { return Ok(context.zone) };
    name.parse().map_err(|_| {
        invalid(format!("`{name}` is not a time zone; use an IANA name such as Europe/Berlin or UTC"))
    })
}

/// Compute with dates and times: `from` with its weekday, `from` plus `add`, or the distance from `from` to `to`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DateMath {
    /// now (default), today, 2026-12-01, 2026-12-01T15:00, or with an offset.
    from: Option<String>,
    /// As `3 weeks -2 days`, `10 workdays`, `90 minutes`.
    add: Option<String>,
    to: Option<String>,
    /// IANA name of the zone that is computed and answered in; the user's when left out.
    time_zone: Option<String>,
}

impl BuiltIn for DateMath {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let Self { from, add, to, time_zone } = self;
        let zone = zone(time_zone.as_deref(), context)?;
        // A time without an offset is one of the user's zone; the answer is in the other.
        let point = |text: &str| Point::parse(text, context.now, context.zone).map_err(invalid);
        let from = point(from.as_deref().unwrap_or("now"))?;
        let text = match (add, to) {
            (Some(_), Some(_)) => return Err(invalid("give either `add` or `to`, not both")),
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

/// Characters of an expression.
const MAX_EXPRESSION: usize = 1_000;
/// Bytes of a result. Longer ones are of no use to a model.
const MAX_RESULT: usize = 2_000;

/// Calculate exactly, with units: `0.1 + 0.2`, `20% of 85`, `5 ft 3 inches to cm`, `100 km/h to m/s`, `20 °C to °F`,
/// `sqrt(2)`, `2^200`, `0xff to decimal`. No currencies.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Calculate {
    #[schemars(length(max = MAX_EXPRESSION))]
    expression: String,
}

impl BuiltIn for Calculate {
    fn is_available(outside: &Outside) -> bool {
        outside.sandbox.is_some()
    }

    fn plan(self, _: &CallContext, outside: &Outside) -> Result<Plan, Refusal> {
        text("expression", self.expression.as_str(), MAX_EXPRESSION)?;
        let sandbox = outside.sandbox.clone();
        Ok(Plan::Execute(Box::pin(async move {
            let Some(sandbox) = sandbox else {
                let reason = "this machine cannot calculate safely: `houston doctor` says why";
                return ToolResponse::failure(ToolErrorCode::ConfigError, reason);
            };
            let (code, reason) = match sandbox
                .convert(Conversion::Calculation, self.expression.as_bytes(), MAX_RESULT)
                .await
            {
                Ok(Converted::Text { text, cut: false }) => return ToolResponse::success(text),
                Ok(Converted::Text { text, cut: true }) => {
                    return ToolResponse::success(format!("{text}… (cut after {MAX_RESULT} bytes)"));
                }
                Ok(Converted::Unreadable(reason)) => (ToolErrorCode::ValidationError, reason),
                Err(error) => (ToolErrorCode::IoError, error.to_string()),
            };
            ToolResponse::failure(code, format!("{}: {reason}", Self::NAME))
        })))
    }
}

/// Makes a UUID, from no text.
const UUID: &str = "uuid";

/// Transform a text exactly. uuid makes a new one from nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TransformText {
    #[schemars(with = "String", extend("enum" = operations()))]
    operation: Asked,
    #[schemars(description = format!("At most {MAX_TEXT_BYTES} bytes; for regex {MAX_SEARCHED_BYTES}."))]
    text: Option<String>,
    /// For regex: the expression, without look-around. For json_get: a pointer, as /items/*/name.
    pattern: Option<String>,
    /// For regex_replace; $1 is the first group.
    replacement: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`operation` is none of those that the schema lists")]
enum Asked {
    Text(Operation),
    Uuid(Uuid),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Uuid {
    Uuid,
}

fn operations() -> Vec<&'static str> {
    Operation::ALL.iter().map(|one| one.as_str()).chain([UUID]).collect()
}

impl BuiltIn for TransformText {
    fn plan(self, context: &CallContext, _: &Outside) -> Result<Plan, Refusal> {
        let Self { operation, text, pattern, replacement } = self;
        let operation = match operation {
            Asked::Text(operation) => operation,
            Asked::Uuid(Uuid::Uuid) => return Ok(Plan::Answer(ToolResponse::success(uuid_of(context)))),
        };
        let text = text.ok_or_else(|| invalid("this operation needs `text`"))?;
        let failed = |code, reason: &str| ToolResponse::failure(code, format!("{}: {reason}", Self::NAME));
        let work = move || match transform(operation, &text, pattern.as_deref(), replacement.as_deref()) {
            Ok(result) => ToolResponse::success(result),
            Err(reason) => failed(ToolErrorCode::ValidationError, &reason),
        };
        if !operation.is_search() {
            return Ok(Plan::Answer(work()));
        }
        // An expression may take a while with each letter: not on a thread that drives runs.
        let tenant = context.tenant.0;
        Ok(Plan::Execute(Box::pin(async move {
            let done = houston_meter::compute(tenant, work).await;
            done.unwrap_or_else(|Stopped| failed(ToolErrorCode::IoError, "Houston is stopping"))
        })))
    }
}

/// A version 4 UUID: the same each time this call is repeated, and one that no other call gets.
fn uuid_of(context: &CallContext) -> String {
    let digest = Sha256::new().chain_update(UUID).chain_update(&context.idempotency_key).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
