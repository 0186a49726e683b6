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

/// A JSON pointer, parsed once.
#[derive(Debug, Clone)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// Parses a pointer, which begins with `/`.
    pub(super) fn new(pointer: &str) -> Self {
        Self(pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
    }

    /// The value it points to.
    pub(super) fn of<'v>(&self, input: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(input, |value, part| match value {
            Value::Object(table) => table.get(part),
            Value::Array(list) => list.get(part.parse::<usize>().ok()?),
            _ => None,
        })
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
