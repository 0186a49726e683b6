//! Text that Postgres can store: any character but U+0000, which models and tools sometimes write.
//!
//! Each U+0000 is replaced by U+FFFD, so that lengths in characters do not change: stream positions depend on them.

use serde_json::Value;

/// Replaces each U+0000 in `text` by U+FFFD.
pub fn storable(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

/// Replaces each U+0000 in all strings of `value`, including field names.
pub fn storable_value(value: &mut Value) {
    match value {
        Value::String(text) => storable(text),
        Value::Array(items) => items.iter_mut().for_each(storable_value),
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains('\0')) {
                let named = std::mem::take(fields).into_iter();
                fields.extend(named.map(|(name, value)| (name.replace('\0', "\u{fffd}"), value)));
            }
            fields.values_mut().for_each(storable_value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_u0000_is_replaced_in_all_strings_of_a_value() {
        let mut value = json!({"a\0": ["\0b", {"c": "d\0"}], "e": 1, "f": "\u{1}ä"});
        storable_value(&mut value);
        let expected = json!({"a\u{fffd}": ["\u{fffd}b", {"c": "d\u{fffd}"}], "e": 1, "f": "\u{1}ä"});
        assert_eq!(value, expected);
    }
}
