//! The value of an answer whose form is a schema: the simplest that fits, with the text in its strings.

use serde_json::{Map, Value, json};

/// How deep values are.
const DEEPEST: usize = 8;

/// A value that fits `schema`, with `text` in its strings.
pub(super) fn example(schema: &Value, text: &str) -> Value {
    of(schema, schema, text, 0)
}

fn of(root: &Value, schema: &Value, text: &str, depth: usize) -> Value {
    if depth > DEEPEST {
        return Value::Null;
    }
    let below = |schema: &Value| of(root, schema, text, depth + 1);
    if let Some(target) = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#')) {
        return root.pointer(target).map_or(Value::Null, below);
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[choice].get(0) {
            return below(first);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let kind = kind.unwrap_or(if schema["properties"].is_object() { "object" } else { "string" });
    match kind {
        "object" => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields: Map<String, Value> =
                fields.map(|(name, schema)| (name.clone(), below(schema))).collect();
            Value::Object(fields)
        }
        "array" => {
            let items = schema["minItems"].as_u64().unwrap_or(1).clamp(1, 10);
            (0..items).map(|_| below(&schema["items"])).collect()
        }
        "integer" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "number" => schema.get("minimum").cloned().unwrap_or(json!(1.5)),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => {
            let most =
                schema["maxLength"].as_u64().map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0));
            json!(text.chars().take(most).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_fits_its_schema() {
        let schema = json!({
            "type": "object", "required": ["city", "days", "stops"],
            "$defs": {"stop": {"type": "object", "properties": {"kind": {"enum": ["hotel", "train"]}, "price": {"type": "number"}}}},
            "properties": {
                "city": {"type": "string", "maxLength": 4},
                "days": {"type": "integer", "minimum": 2},
                "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                "stops": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/stop"}},
            },
        });
        let value = example(&schema, "Kyoto");
        assert_eq!(value["city"], "Kyot");
        assert_eq!(value["stops"][1], json!({"kind": "hotel", "price": 1.5}));
        crate::schema::check(&schema, &value).unwrap();
    }
}
