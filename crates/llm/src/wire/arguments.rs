//! Arguments of tool calls.

use houston_domain::storable::storable_value;
use serde_json::Value;

use crate::shorten::shortened;

/// Longest piece of malformed arguments that is stored, in characters: enough for the model to see its mistake.
const LONGEST_MALFORMED: usize = 400;

/// Parses the arguments of a call. Blank text and `null` mean no arguments.
///
/// # Errors
/// The text, shortened, when it is not a JSON object.
pub(crate) fn parse(json: &str) -> Result<Value, String> {
    let json = json.trim();
    if json.is_empty() || json == "null" {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str(json) {
        Ok(mut value @ Value::Object(_)) => {
            storable_value(&mut value);
            Ok(value)
        }
        _ => Err(shortened(json, LONGEST_MALFORMED)),
    }
}
