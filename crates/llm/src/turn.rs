//! The parts of a [`ModelTurn`](houston_domain::model::ModelTurn) that every wire builds alike.

use serde_json::Value;

/// Longest piece of malformed arguments that is kept, in characters: enough for the model to see its mistake.
const LONGEST_MALFORMED: usize = 400;

/// Reads the arguments of a call. No text at all means no arguments.
///
/// # Errors
/// The text, shortened, when it is no JSON object.
pub(crate) fn arguments(json: &str) -> Result<Value, String> {
    let json = json.trim();
    if json.is_empty() || json == "null" {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str(json) {
        Ok(value @ Value::Object(_)) => Ok(value),
        _ => Err(shortened(json, LONGEST_MALFORMED)),
    }
}

/// The first `longest` characters of `text`, with `…` when there is more.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
