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
