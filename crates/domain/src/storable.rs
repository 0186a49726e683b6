//! Text that Postgres can keep: any but U+0000, which models and tools write now and then.
//!
//! Each becomes U+FFFD, so that lengths in characters stay what they were: a stream counts them.

use serde_json::Value;

/// Replaces each U+0000 of `text`.
pub fn storable(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

/// The same in every text of `value`, names of fields included.
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
    fn every_text_of_a_value_is_made_fit_and_the_rest_is_left() {
        let mut value = json!({"a\0": ["\0b", {"c": "d\0"}], "e": 1, "f": "\u{1}ä"});
        storable_value(&mut value);
        let kept = json!({"a\u{fffd}": ["\u{fffd}b", {"c": "d\u{fffd}"}], "e": 1, "f": "\u{1}ä"});
        assert_eq!(value, kept);
    }
}
