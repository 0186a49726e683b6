//! What the tools for custom tables share: arguments, and the texts of answers.

use chrono_tz::Tz;
use houston_domain::custom_table::{Fault, FieldType, MAX_NAME_CHARS, conditions, texts};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::custom_record::{CustomRecord, RecordFilter};
use houston_store::custom_table::CustomTable;
use houston_store::record::RecordTx;
use houston_store::{Error, Result};
use serde_json::{Map, Value, json};

use crate::builtin::LIST_TABLES;
use crate::tool::InvalidInput;
use crate::untrusted;

/// A value, a list, or tests of one field: for the descriptions of `where`.
pub(crate) const WHERE: &str = "All of these: {\"category\": \"food\", \"amount\": {\"gte\": 10, \"lt\": 100}, \"status\": \
                                [\"new\", \"open\"], \"note\": {\"contains\": \"train\"}, \"paid_on\": {\"empty\": true}}";

/// The schema of an argument with the name of a table.
pub(crate) fn table_schema() -> Value {
    json!({"type": "string", "description": "The name of the table."})
}

/// Checks an argument with the name of a table.
pub(crate) fn name(tool: &str, table: String) -> std::result::Result<String, InvalidInput> {
    crate::input::line(tool, "table", table, MAX_NAME_CHARS)
}

/// The table with this name, or what the model reads if there is none.
pub(crate) async fn table(
    tx: &mut RecordTx<'_>,
    name: &str,
) -> Result<std::result::Result<CustomTable, ToolResponse>> {
    Ok(tx.table(name).await?.ok_or_else(|| missing(name)))
}

/// What the model reads if there is no table with this name.
pub(crate) fn missing(name: &str) -> ToolResponse {
    let text = format!("there is no table `{name}`: {LIST_TABLES} shows those there are");
    ToolResponse::failure(ToolErrorCode::NotFound, text)
}

/// The schema of an argument with fields.
pub(crate) fn fields_schema() -> Value {
    let types: Vec<&str> = FieldType::ALL.iter().map(|kind| kind.as_str()).collect();
    json!({"type": "array", "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "type": {"type": "string", "enum": types, "description": "list: of texts."},
            "required": {"type": "boolean"},
            "enum": {"type": "array", "items": {"type": "string"}},
            "description": {"type": "string"},
        },
        "required": ["name", "type"],
        "additionalProperties": false,
    }})
}

/// What the model reads of arguments that the table does not allow: each fault, and the fields.
pub(crate) fn refused(tool: &str, table: &CustomTable, faults: &[Fault]) -> ToolResponse {
    let (name, schema) = (&table.name, table.fields.schema());
    let schema = untrusted::stored(table.untrusted, &table.id.to_string(), schema.to_string());
    let text = format!("{tool}: {}. A record of {name}: {schema}", texts(faults));
    ToolResponse::failure(ToolErrorCode::ValidationError, text)
}

/// The answer to what was written, or to what has no room.
pub(crate) fn written<T>(done: Result<T>, text: impl FnOnce(T) -> ToolResponse) -> Result<ToolResponse> {
    match done {
        Ok(value) => Ok(text(value)),
        Err(error @ (Error::Full { .. } | Error::TooLarge { .. })) => {
            Ok(ToolResponse::failure(ToolErrorCode::RateLimited, error.to_string()))
        }
        Err(error @ (Error::Exists { .. } | Error::NotFound { .. })) => {
            Ok(ToolResponse::failure(ToolErrorCode::ValidationError, error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// The filter of a call.
pub(crate) fn filter(
    table: &CustomTable,
    conditions_of: &Map<String, Value>,
    text: Option<&str>,
    zone: Tz,
) -> std::result::Result<RecordFilter, Vec<Fault>> {
    let conditions = conditions(conditions_of, &table.fields, Some(zone))?;
    Ok(RecordFilter { conditions, text: text.map(str::to_owned) })
}

/// `record_0190…: {"amount":12.5}`
pub(crate) fn line(record: &CustomRecord) -> String {
    let (id, data) = (record.id.to_string(), Value::from(record.data.clone()).to_string());
    format!("{id}: {}", untrusted::stored(record.untrusted, &id, data))
}
