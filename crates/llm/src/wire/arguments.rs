//! The arguments of a tool call.

use houston_domain::storable::storable_value;
use serde_json::Value;

use crate::shorten::shortened;

/// Longest piece of malformed arguments that is kept, in characters: enough for the model to see its mistake.
const LONGEST_MALFORMED: usize = 400;

/// Parses the arguments of a call. No text at all means no arguments.
///
/// # Errors
/// The text, shortened, when it is no JSON object.
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
