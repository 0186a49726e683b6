//! The values of an argument.

use std::borrow::Cow;

use serde_json::Value;

/// Calls `visit` with each text, number and boolean of `value`, also within lists and tables, until it returns false.
/// Returns whether it always returned true.
pub(super) fn each_value<'v>(value: &'v Value, visit: &mut impl FnMut(Cow<'v, str>) -> bool) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => visit(Cow::Borrowed(text)),
        Value::Bool(_) | Value::Number(_) => visit(Cow::Owned(value.to_string())),
        Value::Array(list) => list.iter().all(|value| each_value(value, visit)),
        Value::Object(table) => table.values().all(|value| each_value(value, visit)),
    }
}

/// The values at `pointer`; none when there is nothing.
pub(super) fn values_at<'v>(input: &'v Value, pointer: &str) -> Vec<Cow<'v, str>> {
    let mut values = Vec::new();
    if let Some(value) = input.pointer(pointer) {
        each_value(value, &mut |text| {
            values.push(text);
            true
        });
    }
    values
}

/// A value as messages quote it: at most 100 characters, without control characters.
pub(super) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().filter(|letter| !letter.is_control()).take(100).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("`{short}`")
}
