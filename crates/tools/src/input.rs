//! Reading a tool's arguments, with errors a model can act on.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::InvalidInput;

/// Reads the arguments as `T` (which should refuse unknown fields).
///
/// # Errors
/// [`InvalidInput`] naming the tool, the fault and what is allowed.
pub fn read<T: DeserializeOwned>(tool: &str, input: &Value) -> Result<T, InvalidInput> {
    serde_json::from_value(input.clone()).map_err(|error| InvalidInput(format!("{tool}: {error}")))
}

/// A text that is not blank and at most `max` bytes long.
///
/// # Errors
/// [`InvalidInput`] naming the field and the bound.
pub fn text(tool: &str, field: &str, value: String, max: usize) -> Result<String, InvalidInput> {
    if value.trim().is_empty() {
        return Err(InvalidInput(format!("{tool}: `{field}` is empty: give it a text")));
    }
    if value.len() > max {
        let length = value.len();
        return Err(InvalidInput(format!("{tool}: `{field}` has {length} bytes, at most {max} are allowed")));
    }
    Ok(value)
}

/// The same, of a text that may be left out.
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

/// One line: a text without line breaks, of at most `max` characters.
///
/// # Errors
/// [`InvalidInput`] naming the field and the bound.
pub fn line(tool: &str, field: &str, value: String, max: usize) -> Result<String, InvalidInput> {
    let value = text(tool, field, value, usize::MAX)?;
    let length = value.chars().count();
    if length > max {
        return Err(InvalidInput(format!(
            "{tool}: `{field}` has {length} characters, at most {max} are allowed"
        )));
    }
    if value.contains(['\n', '\r']) {
        return Err(InvalidInput(format!("{tool}: `{field}` has several lines: give it one")));
    }
    Ok(value)
}

/// How many, from 1 to `most`; `usual` when left out.
///
/// # Errors
/// [`InvalidInput`] naming what is allowed.
pub fn limit(tool: &str, limit: Option<u32>, usual: u32, most: u32) -> Result<u32, InvalidInput> {
    let limit = limit.unwrap_or(usual);
    if !(1..=most).contains(&limit) {
        return Err(InvalidInput(format!("{tool}: `limit` is {limit}, allowed are 1 to {most}")));
    }
    Ok(limit)
}
