//! JSON Schemas of arguments, made from their types.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The order of the keys of a schema that models are sent.
const ORDER: [&str; 12] = [
    "type",
    "format",
    "enum",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "description",
];

/// The JSON Schema of a type, without references and without the names of Rust types.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value()
}

/// The same for a built-in tool, with the description of the type: models are sent it with each call, so it says only what
/// helps them. Left out are the width of numbers, defaults, and that an argument that may be left out may also be null.
pub(crate) fn brief<T: JsonSchema>() -> (Value, String) {
    let mut schema = of::<T>();
    let description = schema.as_object_mut().and_then(|fields| {
        fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        fields.shift_remove("description")
    });
    let description = description.as_ref().and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
    (brief_of(schema), description)
}

fn brief_of(schema: Value) -> Value {
    let Value::Object(fields) = schema else { return schema };
    let is_number = |kind: &Value| matches!(kind.as_str(), Some("integer" | "number"));
    let kind = fields.get("type").map(not_null);
    let mut fields: Vec<(String, Value)> = fields
        .into_iter()
        .filter(|(key, value)| match key.as_str() {
            "default" => false,
            "format" => !kind.as_ref().is_some_and(is_number),
            "additionalProperties" => *value != Value::Bool(true),
            _ => true,
        })
        .map(|(key, value)| {
            let value = match (key.as_str(), value) {
                ("type", value) => not_null(&value),
                ("properties", Value::Object(all)) => {
                    Value::Object(all.into_iter().map(|(name, of)| (name, brief_of(of))).collect())
                }
                ("items" | "additionalProperties", value) => brief_of(value),
                ("description", Value::String(text)) => Value::String(text.replace('\n', " ")),
                (_, value) => value,
            };
            (key, value)
        })
        .collect();
    fields.sort_by_key(|(key, _)| ORDER.iter().position(|one| one == key).unwrap_or(ORDER.len()));
    Value::Object(Map::from_iter(fields))
}

/// The one type of `["string", "null"]`.
fn not_null(kind: &Value) -> Value {
    match kind.as_array().map(Vec::as_slice) {
        Some([one, null] | [null, one]) if *null == "null" => one.clone(),
        _ => kind.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Arguments of a test.
    #[derive(JsonSchema)]
    #[schemars(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is needed")]
    struct Trip {
        /// Where to,
        /// and why.
        city: City,
        #[schemars(range(min = 1, max = 30))]
        nights: Option<u8>,
        stops: Option<Vec<String>>,
        more: Option<Map<String, Value>>,
    }

    #[derive(JsonSchema)]
    #[schemars(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is needed")]
    enum City {
        Rome,
        Paris,
    }

    #[test]
    fn brief_schema_says_what_helps_a_model() {
        let expected = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "enum": ["rome", "paris"], "description": "Where to, and why."},
                "nights": {"type": "integer", "minimum": 1, "maximum": 30},
                "stops": {"type": "array", "items": {"type": "string"}},
                "more": {"type": "object"}
            },
            "required": ["city"],
            "additionalProperties": false
        });
        assert_eq!(brief::<Trip>().0.to_string(), expected.to_string(), "the order of keys counts, too");
    }
}
