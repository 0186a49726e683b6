//! Checking an answer against the schema of its question.
//!
//! Of JSON Schema this knows what forms and buttons need: `type`, `enum`, `const`, `properties`, `required`,
//! `additionalProperties: false`, `items`, `minItems`, `maxItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `oneOf`
//! and `anyOf` (one that matches is enough for either). Other keywords are descriptions: they refuse nothing.

use serde_json::{Map, Value};

/// How deep schemas are followed.
const MAX_DEPTH: usize = 32;

/// An answer that does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The JSON Pointer of the value that does not match, within the answer.
    pub pointer: String,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

/// Checks `answer`.
///
/// # Errors
/// The first [`Mismatch`].
pub fn check(schema: &Value, answer: &Value) -> Result<(), Mismatch> {
    check_at(schema, answer, String::new(), MAX_DEPTH)
}

fn check_at(schema: &Value, value: &Value, pointer: String, depth: usize) -> Result<(), Mismatch> {
    let (Value::Object(schema), Some(depth)) = (schema, depth.checked_sub(1)) else {
        return match schema {
            Value::Bool(false) => Err(Mismatch { pointer, reason: "must not be there".to_owned() }),
            _ => Ok(()),
        };
    };
    if let Some(reason) = wrong_alone(schema, value) {
        return Err(Mismatch { pointer, reason });
    }
    match value {
        Value::Object(fields) => check_fields(schema, fields, &pointer, depth),
        Value::Array(items) => match schema.get("items") {
            Some(of) => items
                .iter()
                .enumerate()
                .try_for_each(|(nth, item)| check_at(of, item, format!("{pointer}/{nth}"), depth)),
            None => Ok(()),
        },
        _ => Ok(()),
    }?;
    for either in ["oneOf", "anyOf"] {
        let Some(Value::Array(options)) = schema.get(either) else { continue };
        let check = |option: &Value| check_at(option, value, pointer.clone(), depth);
        if !options.iter().any(|option| check(option).is_ok()) {
            let meant = options.iter().find(|option| is_meant(option, value)).map(check);
            let reason = format!("must match one of the {} options", options.len());
            return meant.unwrap_or(Err(Mismatch { pointer, reason }));
        }
    }
    Ok(())
}

/// Whether `value` has the constant fields of an option, by which options of a kind differ: then its other errors are said.
fn is_meant(option: &Value, value: &Value) -> bool {
    let Some(Value::Object(properties)) = option.get("properties") else { return false };
    let mut constants =
        properties.iter().filter_map(|(name, schema)| Some((name, schema.get("const")?))).peekable();
    constants.peek().is_some() && constants.all(|(name, constant)| value.get(name) == Some(constant))
}

fn check_fields(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    pointer: &str,
    depth: usize,
) -> Result<(), Mismatch> {
    let at = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    if let Some(Value::Array(required)) = schema.get("required")
        && let Some(name) = required.iter().filter_map(Value::as_str).find(|name| !fields.contains_key(*name))
    {
        return Err(Mismatch { pointer: at(name), reason: "is missing".to_owned() });
    }
    let defined = schema.get("properties").and_then(Value::as_object);
    for (name, value) in fields {
        match (defined.and_then(|defined| defined.get(name)), schema.get("additionalProperties")) {
            (Some(of), _) => check_at(of, value, at(name), depth)?,
            (None, Some(Value::Bool(false))) => {
                return Err(Mismatch { pointer: at(name), reason: "is not a known field".to_owned() });
            }
            (None, Some(of)) => check_at(of, value, at(name), depth)?,
            (None, None) => {}
        }
    }
    Ok(())
}

/// What is wrong with the value itself, without the values in it.
fn wrong_alone(schema: &Map<String, Value>, value: &Value) -> Option<String> {
    let is_of = |name: &Value| name.as_str().is_none_or(|name| is_type(name, value));
    match schema.get("type") {
        Some(Value::Array(types)) if !types.iter().any(is_of) => {
            return Some(format!("must be one of the types {}", Value::Array(types.clone())));
        }
        Some(name @ Value::String(_)) if !is_of(name) => return Some(format!("must be of type {name}")),
        _ => {}
    }
    if let Some(constant) = schema.get("const").filter(|constant| *constant != value) {
        return Some(format!("must be {constant}"));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        return Some(format!("must be one of {}", Value::Array(allowed.clone())));
    }
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let outside = |size: f64, least: &str, most: &str, what: &str| match (number(least), number(most)) {
        (Some(least), _) if size < least => Some(format!("must be at least {least}{what}")),
        (_, Some(most)) if size > most => Some(format!("must be at most {most}{what}")),
        _ => None,
    };
    let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    match value {
        Value::Number(of) => outside(of.as_f64()?, "minimum", "maximum", ""),
        Value::String(text) => {
            outside(count(text.chars().count()), "minLength", "maxLength", " characters long")
        }
        Value::Array(items) => outside(count(items.len()), "minItems", "maxItems", " items long"),
        _ => None,
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(schema: &Value, answer: &Value) -> (String, String) {
        let Mismatch { pointer, reason } = check(schema, answer).unwrap_err();
        (pointer, reason)
    }

    #[test]
    fn answer_must_match_the_type_and_the_choices() {
        let yes_or_no = json!({"type": "boolean", "title": "Delete?"});
        assert_eq!(check(&yes_or_no, &json!(true)), Ok(()));
        assert_eq!(wrong(&yes_or_no, &json!("yes")).1, "must be of type \"boolean\"");
        let choice = json!({"enum": ["a", "b"]});
        assert_eq!(check(&choice, &json!("b")), Ok(()));
        assert_eq!(wrong(&choice, &json!("c")).1, "must be one of [\"a\",\"b\"]");
        let amount = json!({"type": ["integer", "null"], "minimum": 1, "maximum": 10});
        assert_eq!(check(&amount, &Value::Null), Ok(()));
        assert_eq!(wrong(&amount, &json!(11)).1, "must be at most 10");
        assert!(wrong(&amount, &json!(1.5)).1.starts_with("must be one of the types"));
        assert_eq!(wrong(&json!({"minLength": 2}), &json!("ä")).1, "must be at least 2 characters long");
        assert_eq!(wrong(&json!(false), &json!(1)).1, "must not be there");
    }

    #[test]
    fn mismatch_inside_of_an_answer_has_its_pointer() {
        let form = json!({
            "type": "object", "required": ["decision"], "additionalProperties": false,
            "properties": {
                "decision": {"oneOf": [{"const": "approve"}, {"const": "reject"}]},
                "parts": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            },
        });
        assert_eq!(check(&form, &json!({"decision": "approve", "parts": ["a"]})), Ok(()));
        let cases = [
            (json!({}), "/decision"),
            (json!({"decision": "edit"}), "/decision"),
            (json!({"decision": "approve", "parts": ["a", 1]}), "/parts/1"),
            (json!({"decision": "approve", "parts": ["a", "b", "c"]}), "/parts"),
            (json!({"decision": "approve", "a/b": 1}), "/a~1b"),
            (json!([]), ""),
        ];
        for (answer, pointer) in cases {
            assert_eq!(wrong(&form, &answer).0, pointer, "{answer}");
        }
    }

    #[test]
    fn schema_that_refers_to_itself_many_times_ends() {
        let mut schema = json!({"type": "string"});
        let mut answer = json!(1);
        for _ in 0..100 {
            schema = json!({"items": schema});
            answer = json!([answer]);
        }
        assert_eq!(check(&schema, &answer), Ok(()), "what is too deep is not checked");
    }
}
