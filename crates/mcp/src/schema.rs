//! Schemas of arguments, made safe to show without a change of what they mean.

use serde_json::{Map, Value};

use crate::text::{cleaned, is_hidden};

/// The keys of texts for readers.
const TEXTS: [&str; 3] = ["title", "description", "$comment"];
/// The keys of values that are sent as they are.
const VALUES: [&str; 5] = ["enum", "const", "default", "examples", "example"];
/// The keys of objects whose keys are names, and whose values are schemas.
const NAMED: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];

/// The schema with its texts cleaned, and with a type.
///
/// # Errors
/// Why it cannot be offered: a name or a value has invisible characters. They cannot be removed, because the server expects
/// them, and a model must not read what a person does not see.
pub(crate) fn clean(mut schema: Value) -> Result<Value, String> {
    clean_texts(&mut schema);
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
    }
    match hidden(&schema) {
        None => Ok(schema),
        Some(text) => Err(format!("its schema has invisible characters in `{}`", cleaned(text, 100))),
    }
}

fn clean_texts(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(clean_texts),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| clean_field(key, value)),
        _ => {}
    }
}

fn clean_field(key: &str, value: &mut Value) {
    match value {
        Value::String(text) if TEXTS.contains(&key) => *text = cleaned(text, usize::MAX),
        _ if VALUES.contains(&key) => {}
        Value::Object(named) if NAMED.contains(&key) => Map::values_mut(named).for_each(clean_texts),
        value => clean_texts(value),
    }
}

/// A text with invisible characters. The ends of lines of other systems are none.
fn hidden(value: &Value) -> Option<&str> {
    let is_wrong = |text: &str| text.chars().any(|c| c != '\r' && is_hidden(c));
    match value {
        Value::String(text) => is_wrong(text).then_some(text),
        Value::Array(items) => items.iter().find_map(hidden),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(key, value)| if is_wrong(key) { Some(key.as_str()) } else { hidden(value) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_and_patterns_are_left_as_they_are() {
        let schema = json!({"type": "object", "properties": {
            "separator": {"enum": [" ", "\t", "\r\n", "a "], "default": " "},
            "code": {"pattern": "^ a$ ", "const": {"description": " x "}},
            "description": {"type": "string", "examples": ["  "]},
        }, "$defs": {"default": {"pattern": " "}}});
        assert_eq!(clean(schema.clone()), Ok(schema));
    }

    #[test]
    fn texts_are_cleaned_wherever_they_are() {
        let text = "left\u{202e}thgir";
        let schema = json!({"title": text, "properties": {"default": {"description": text}},
            "anyOf": [{"description": text}], "$defs": {"a": {"items": {"$comment": text}}}});
        let clean = clean(schema).unwrap();
        assert_eq!(clean.to_string().matches("leftthgir").count(), 4, "{clean}");
        assert_eq!(clean["type"], "object");
    }
}
