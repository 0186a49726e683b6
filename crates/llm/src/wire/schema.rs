//! Answer schemas in the format of providers. Their keywords are those of [`Rules`](super::tool_schema::Rules).

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
    /// `may_be_strict`: whether the model accepts strict schemas.
    pub(crate) fn new(form: AnswerSchema<'a>, may_be_strict: bool) -> Self {
        Self {
            name: form.name,
            strict: may_be_strict && form.strict && is_strict(form.schema),
            schema: form.schema,
        }
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

/// Prompt text for a model whose provider does not enforce the schema.
pub(crate) fn instruction(form: AnswerSchema<'_>) -> String {
    format!(
        "Answer with one JSON object and nothing else, no Markdown around it. It must satisfy this JSON Schema:\n{}",
        form.schema
    )
}

/// Whether a schema has properties, or the type `object`.
pub(crate) fn describes_object(fields: &Map<String, Value>) -> bool {
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
}
