//! Parsing of a tool's arguments, with errors that tell the model how to correct the call.

use houston_domain::field::Entity;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::InvalidInput;

/// Parses the arguments as `T`, which should refuse unknown fields.
///
/// # Errors
/// [`InvalidInput`] with the tool, the error and what is allowed.
pub fn read<T: DeserializeOwned>(tool: &str, input: &Value) -> Result<T, InvalidInput> {
    serde_json::from_value(input.clone()).map_err(|error| InvalidInput(format!("{tool}: {error}")))
}

/// As [`read`], for a tool that changes an `entity`: the refusal of an unknown field names what may be changed, and by whom.
///
/// # Errors
/// As [`read`].
pub fn read_change<T: DeserializeOwned>(
    tool: &str,
    entity: Entity,
    input: &Value,
) -> Result<T, InvalidInput> {
    read(tool, input).map_err(|InvalidInput(reason)| {
        let is_field = reason.contains("unknown field");
        InvalidInput(if is_field { format!("{reason}; {}", entity.updatable()) } else { reason })
    })
}

/// Checks a text that must not be blank and may have at most `max` bytes.
///
/// # Errors
/// [`InvalidInput`] with the field and what is allowed.
pub fn text(tool: &str, field: &str, value: String, max: usize) -> Result<String, InvalidInput> {
    if value.trim().is_empty() {
        return Err(InvalidInput(format!("{tool}: `{field}` must not be empty")));
    }
    if value.len() > max {
        let length = value.len();
        return Err(InvalidInput(format!("{tool}: `{field}` has {length} bytes; at most {max} are allowed")));
    }
    Ok(value)
}

/// Checks an optional text, as [`text`].
///
/// # Errors
/// As [`text`].
pub fn optional_text(
    tool: &str,
    field: &str,
    value: Option<String>,
    max: usize,
) -> Result<Option<String>, InvalidInput> {
    value.map(|value| text(tool, field, value, max)).transpose()
}

/// Checks a text that must be one line of at most `max` characters.
///
/// # Errors
/// [`InvalidInput`] with the field and what is allowed.
pub fn line(tool: &str, field: &str, value: String, max: usize) -> Result<String, InvalidInput> {
    let value = text(tool, field, value, usize::MAX)?;
    let length = value.chars().count();
    if length > max {
        return Err(InvalidInput(format!(
            "{tool}: `{field}` has {length} characters; at most {max} are allowed"
        )));
    }
    if value.contains(['\n', '\r']) {
        return Err(InvalidInput(format!("{tool}: `{field}` has several lines; only one is allowed")));
    }
    Ok(value)
}

/// Checks a number of items from 1 to `max`; `default` if it is absent.
///
/// # Errors
/// [`InvalidInput`] with what is allowed.
pub fn limit(tool: &str, limit: Option<u32>, default: u32, max: u32) -> Result<u32, InvalidInput> {
    let limit = limit.unwrap_or(default);
    if !(1..=max).contains(&limit) {
        return Err(InvalidInput(format!("{tool}: `limit` is {limit}, but must be from 1 to {max}")));
    }
    Ok(limit)
}
