//! `transform_text`: encodings, hashes, regular expressions, JSON and CSV.

use houston_domain::tool_call::{EffectClass, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_domain::transform::{MAX_SEARCHED_BYTES, MAX_TEXT_BYTES, Operation, transform};
use houston_meter::Stopped;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::input;
use crate::tool::{CallContext, InvalidInput, Plan, Tool};

const NAME: &str = "transform_text";
/// Makes a UUID, from no text.
const UUID: &str = "uuid";

/// Transforms a text. Pure.
#[derive(Debug)]
pub(super) struct TransformText(ToolDefinition);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    operation: Asked,
    text: Option<String>,
    pattern: Option<String>,
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

impl Default for TransformText {
    fn default() -> Self {
        let operations: Vec<&str> = Operation::ALL.iter().map(|one| one.as_str()).chain([UUID]).collect();
        Self(ToolDefinition {
            name: NAME.to_owned(),
            description: "Transform a text exactly. uuid makes a new one from nothing.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "operation": {"type": "string", "enum": operations},
                    "text": {"type": "string", "description":
                        format!("At most {MAX_TEXT_BYTES} bytes; for regex {MAX_SEARCHED_BYTES}.")},
                    "pattern": {"type": "string", "description":
                        "For regex: the expression, without look-around. For json_get: a pointer, as /items/*/name."},
                    "replacement": {"type": "string", "description": "For regex_replace; $1 is the first group."},
                },
                "required": ["operation"],
                "additionalProperties": false,
            })
            .into(),
            effect: EffectClass::Read,
            timeout: ToolDefinition::default_timeout(),
        })
    }
}

impl Tool for TransformText {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput> {
        let Input { operation, text, pattern, replacement } = input::read(NAME, input)?;
        let operation = match operation {
            Asked::Text(operation) => operation,
            Asked::Uuid(Uuid::Uuid) => return Ok(Plan::Answer(ToolResponse::success(uuid_of(context)))),
        };
        let text = text.ok_or_else(|| InvalidInput(format!("{NAME}: this operation needs `text`")))?;
        let work = move || match transform(operation, &text, pattern.as_deref(), replacement.as_deref()) {
            Ok(result) => ToolResponse::success(result),
            Err(reason) => ToolResponse::failure(ToolErrorCode::ValidationError, format!("{NAME}: {reason}")),
        };
        if !operation.is_search() {
            return Ok(Plan::Answer(work()));
        }
        // An expression may take a while with each letter: not on a thread that drives runs.
        let user = context.user.0;
        Ok(Plan::Execute(Box::pin(async move {
            houston_meter::compute(user, work).await.unwrap_or_else(|Stopped| {
                ToolResponse::failure(ToolErrorCode::IoError, format!("{NAME}: Houston is stopping"))
            })
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
