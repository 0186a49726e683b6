//! Custom tables: records of a user in fields that they or their agents chose.

pub(crate) mod add_fields;
pub(crate) mod aggregate;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;

use houston_domain::custom_table::{Fault, Fields, conditions};
use houston_protocol::problem::FieldError;
use houston_protocol::table::TableResponse;
use houston_protocol::time::Time;
use houston_store::custom_record::RecordFilter;
use houston_store::custom_table::CustomTable;
use serde_json::{Map, Value};

use crate::body::parse;
use crate::error::ApiError;

fn response(table: CustomTable) -> TableResponse {
    TableResponse {
        id: table.id,
        user_id: table.user,
        name: table.name,
        description: table.description,
        schema: table.fields.schema(),
        fields: table.fields,
        records: table.records,
        bytes: table.bytes,
        untrusted: table.untrusted,
        created_at: Time(table.created_at),
    }
}

/// The faults of values below `pointer`.
pub(crate) fn refused(pointer: &str, faults: Vec<Fault>) -> ApiError {
    let error = |fault: Fault| {
        let field = fault.field.replace('~', "~0").replace('/', "~1");
        let at = if field.is_empty() { pointer.to_owned() } else { format!("{pointer}/{field}") };
        FieldError::at(at, fault.reason)
    };
    ApiError::InvalidRequest { errors: faults.into_iter().map(error).collect() }
}

/// The filter of the query parameters `where`, which is JSON, and `query`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the parameter.
pub(crate) fn filter(
    fields: &Fields,
    conditions_text: Option<&str>,
    text: Option<String>,
) -> Result<RecordFilter, ApiError> {
    if text.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(ApiError::parameter("query", "the character U+0000 is in no record"));
    }
    let given: Map<String, Value> = match conditions_text {
        Some(json) => parse(json.as_bytes()).map_err(|error| {
            let example = r#"must be a JSON object, as {"amount": {"gte": 10}}"#;
            ApiError::parameter("where", format!("{example}: {error}"))
        })?,
        None => Map::new(),
    };
    let conditions = conditions(&given, fields, None).map_err(|faults| {
        let errors = faults.iter().map(|fault| FieldError::parameter("where", fault.to_string())).collect();
        ApiError::InvalidRequest { errors }
    })?;
    Ok(RecordFilter { conditions, text })
}
