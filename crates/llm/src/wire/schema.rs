//! Converts answer schemas into what providers accept.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::AnswerSchema;

/// A schema in the format of OpenAI.
#[derive(Serialize)]
pub(crate) struct NamedSchema<'a> {
    name: &'a str,
    /// Whether the provider enforces the schema. OpenAI accepts this only for schemas without optional or additional
    /// properties.
    strict: bool,
    schema: &'a Value,
}

impl<'a> NamedSchema<'a> {
    pub(crate) fn new(form: AnswerSchema<'a>) -> Self {
        Self { name: form.name, strict: is_strict(form.schema), schema: form.schema }
    }
}

/// Whether every object in a schema forbids additional properties and requires all that it has.
fn is_strict(schema: &Value) -> bool {
    let Value::Object(fields) = schema else { return !schema.is_boolean() };
    let nested = children(fields).all(is_strict);
    if !describes_object(fields) {
        return nested;
    }
    let required: Vec<&str> = names(fields.get("required")).collect();
    let properties = fields.get("properties").and_then(Value::as_object);
    let all_required = properties.into_iter().flatten().all(|(name, _)| required.contains(&name.as_str()));
    nested && all_required && fields.get("additionalProperties") == Some(&Value::Bool(false))
}

/// String formats that Anthropic enforces.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// A copy without additional properties, in which keywords that Anthropic does not enforce are moved into the
/// description, as its own libraries do: <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>.
pub(crate) fn closed(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut supported = Map::new();
    let mut unsupported = Map::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                let named = named.iter().map(|(name, schema)| (name.clone(), closed(schema)));
                supported.insert(name.clone(), Value::Object(named.collect()));
            }
            ("anyOf" | "allOf", Value::Array(listed)) => {
                supported.insert(name.clone(), listed.iter().map(closed).collect());
            }
            ("oneOf", Value::Array(listed)) => {
                supported.insert("anyOf".to_owned(), listed.iter().map(closed).collect());
            }
            ("items", _) => drop(supported.insert(name.clone(), closed(value))),
            ("minItems", Value::Number(number)) if number.as_u64() < Some(2) => {
                supported.insert(name.clone(), value.clone());
            }
            ("additionalProperties" | "$schema", _) => {}
            ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                supported.insert(name.clone(), value.clone());
            }
            ("type" | "enum" | "const" | "$ref" | "description" | "title" | "default" | "required", _) => {
                drop(supported.insert(name.clone(), value.clone()))
            }
            _ => drop(unsupported.insert(name.clone(), value.clone())),
        }
    }
    if describes_object(fields) {
        supported.insert("additionalProperties".to_owned(), false.into());
    }
    if !unsupported.is_empty() {
        let rules = Value::Object(unsupported);
        let description = match supported.get("description").and_then(Value::as_str) {
            Some(description) => format!("{description} {rules}"),
            None => rules.to_string(),
        };
        supported.insert("description".to_owned(), description.into());
    }
    Value::Object(supported)
}

/// Prompt text for a model whose provider does not enforce the schema.
pub(crate) fn instruction(form: AnswerSchema<'_>) -> String {
    format!(
        "Answer with one JSON object and nothing else, no Markdown around it. It must satisfy this JSON Schema:\n{}",
        form.schema
    )
}

fn describes_object(fields: &Map<String, Value>) -> bool {
    fields.get("properties").is_some()
        || fields
            .get("type")
            .is_some_and(|kind| kind == "object" || names(Some(kind)).any(|kind| kind == "object"))
}

/// The direct subschemas of a schema.
fn children(fields: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named = ["properties", "$defs", "definitions"];
    let listed = ["anyOf", "allOf", "oneOf"];
    let named = named.into_iter().filter_map(|name| fields.get(name)?.as_object());
    let listed = listed.into_iter().filter_map(|name| fields.get(name)?.as_array());
    named
        .flat_map(|named| named.iter().map(|(_, schema)| schema))
        .chain(listed.flatten())
        .chain(fields.get("items"))
}

fn names(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_fully_specified_schemas_are_strict() {
        let point = json!({"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"],
            "additionalProperties": false});
        assert!(is_strict(&point));
        for (path, value) in [("required", json!([])), ("additionalProperties", json!(true))] {
            let mut open = point.clone();
            open[path] = value;
            assert!(!is_strict(&open), "{open}");
            let around = json!({"type": "object", "properties": {"p": {"type": "array", "items": open}},
                "required": ["p"], "additionalProperties": false});
            assert!(!is_strict(&around), "{around}");
        }
        assert!(!is_strict(&json!({"type": ["object", "null"]})));
    }

    #[test]
    fn closed_schema_moves_unsupported_rules_to_description() {
        let open = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "age": {"type": "integer", "minimum": 0, "description": "In years."},
                "minimum": {"oneOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            },
            "required": ["age"],
        });
        assert_eq!(
            closed(&open),
            json!({
                "type": "object",
                "properties": {
                    "age": {"type": "integer", "description": "In years. {\"minimum\":0}"},
                    "minimum": {"anyOf": [
                        {"type": "object", "properties": {}, "additionalProperties": false}, {"type": "null"},
                    ]},
                    "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1,
                        "description": "{\"maxItems\":3}"},
                },
                "required": ["age"],
                "additionalProperties": false,
            })
        );
    }
}
