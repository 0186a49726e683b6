//! What Postgres can store: any character but U+0000, which models and tools sometimes write. And values that can be read again.
//!
//! Each U+0000 is replaced by U+FFFD, so that lengths in characters do not change: stream positions depend on them.

use serde_json::Value;

/// Replaces each U+0000 in `text` by U+FFFD.
pub fn storable(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

/// The most lists and objects in each other. serde_json reads 127, and values are stored within others.
pub const MAX_LEVELS: usize = 64;

/// What stands where a value had more levels.
const TOO_DEEP: &str = "[nested too deeply]";

/// Replaces each U+0000 in all strings of `value`, including field names, and what has more than [`MAX_LEVELS`].
pub fn storable_value(value: &mut Value) {
    storable_at(value, MAX_LEVELS);
}

/// Whether Postgres can store all strings of `value`, including field names.
pub fn is_storable(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.contains('\0'),
        Value::Array(items) => items.iter().all(is_storable),
        Value::Object(fields) => {
            fields.iter().all(|(name, field)| !name.contains('\0') && is_storable(field))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Whether a value has at most so many levels.
pub fn is_shallow(value: &Value, levels: usize) -> bool {
    fn is_within(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left > 0 && items.iter().all(|item| is_within(item, left - 1)),
            Value::Object(fields) => left > 0 && fields.values().all(|field| is_within(field, left - 1)),
            _ => true,
        }
    }
    is_within(value, levels)
}

fn storable_at(value: &mut Value, left: usize) {
    match value {
        Value::String(text) => storable(text),
        Value::Array(_) | Value::Object(_) if left == 0 => *value = TOO_DEEP.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| storable_at(item, left - 1)),
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains('\0')) {
                let named = std::mem::take(fields).into_iter();
                fields.extend(named.map(|(name, value)| (name.replace('\0', "\u{fffd}"), value)));
            }
            fields.values_mut().for_each(|field| storable_at(field, left - 1));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Size as JSON, in bytes, without making it.
pub fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
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

    #[test]
    fn value_that_could_not_be_read_again_is_cut() {
        let nested = |levels| (0..levels).fold(json!(1), |value, _| json!({"a": [value]}));
        let mut fits = nested(32);
        assert!(is_shallow(&fits, MAX_LEVELS));
        storable_value(&mut fits);
        assert_eq!(fits, nested(32));
        let mut deep = nested(63);
        assert!(!is_shallow(&deep, MAX_LEVELS));
        storable_value(&mut deep);
        assert!(is_shallow(&deep, MAX_LEVELS) && deep.to_string().contains(TOO_DEEP), "{deep}");
    }
}
