//! [`Listed`]: a tool as a server lists it.

pub use houston_domain::mcp_server::pin::ListedTool as Listed;

use houston_domain::mcp_server::pin::Pin;
use houston_domain::tool_schema::read;
use rmcp::model::Tool;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::schema;
use crate::text::cleaned;
use crate::trust::Hints;

/// The most characters of a description.
const MAX_DESCRIPTION: usize = 2048;
/// The most bytes of the schema of the arguments.
const MAX_SCHEMA: usize = 32 * 1024;
/// The most levels of a schema: its readers must not run out of stack.
const MAX_DEPTH: usize = 32;
/// The most characters of a name, by the protocol.
const MAX_NAME: usize = 128;

/// The tool, cleaned.
pub(crate) fn listed_of(tool: &Tool) -> Listed {
    let annotations = tool.annotations.as_ref();
    let hints = Hints {
        read_only: annotations.and_then(|hints| hints.read_only_hint),
        destructive: annotations.and_then(|hints| hints.destructive_hint),
        idempotent: annotations.and_then(|hints| hints.idempotent_hint),
        open_world: annotations.and_then(|hints| hints.open_world_hint),
    };
    let schema = Value::Object((*tool.input_schema).clone());
    let sha256 = sha256_of(json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }));
    let name = &tool.name;
    // A refused schema is not read further.
    let (refused, input_schema) = match refused(name, &schema) {
        Some(reason) => (Some(reason), Value::Null),
        None => match schema::clean(schema) {
            Ok(schema) => (None, schema),
            Err(reason) => (Some(reason), Value::Null),
        },
    };
    let description = cleaned(tool.description.as_deref().unwrap_or_default(), MAX_DESCRIPTION);
    let pin = Pin { sha256, description, input_schema, hints, gone: false, withheld: false };
    Listed { name: cleaned(name, MAX_NAME), pin, refused }
}

/// Why a tool cannot be offered, if so.
fn refused(name: &str, schema: &Value) -> Option<String> {
    if name.is_empty() || cleaned(name, MAX_NAME) != name {
        return Some(format!("its name must have 1 to {MAX_NAME} visible characters"));
    }
    if depth(schema) > MAX_DEPTH {
        return Some(format!("its schema has more than {MAX_DEPTH} levels"));
    }
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA {
        return Some(format!("its schema has {bytes} bytes; at most {MAX_SCHEMA} are allowed"));
    }
    read(schema).err().map(|reason| cleaned(&reason, 200))
}

/// The levels of a value, up to one more than are allowed. It was parsed with a limit, so this ends.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// SHA-256 of a JSON value whose keys are sorted, as 64 hex digits.
fn sha256_of(mut value: Value) -> String {
    value.sort_all_objects();
    format!("{:x}", Sha256::digest(value.to_string()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tool with this description.
    pub(crate) fn listed(name: &str, description: &str) -> Listed {
        of(&json!({"name": name, "description": description, "inputSchema": {"type": "object"}}))
    }

    fn of(tool: &Value) -> Listed {
        listed_of(&serde_json::from_value(tool.clone()).unwrap())
    }

    fn with_schema(schema: &Value) -> Listed {
        of(&json!({"name": "t", "inputSchema": schema}))
    }

    #[test]
    fn texts_that_models_read_are_cleaned() {
        let tool = of(&json!({
            "name": "t", "description": format!("Reads.\u{200b}\u{e0049}{}", "x".repeat(3000)),
            "inputSchema": {"properties": {"a": {"description": "left\u{202e}thgir"}}},
        }));
        assert!(tool.pin.description.starts_with("Reads.xx") && tool.pin.description.chars().count() == 2049);
        assert_eq!(tool.pin.input_schema["properties"]["a"]["description"], "leftthgir");
        assert_eq!(tool.pin.input_schema["type"], "object");
    }

    #[test]
    fn schemas_that_cannot_be_offered_are_refused() {
        let nested = (0..40).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
        for (schema, word) in [
            (json!({"type": "array"}), "not that of an object"),
            (json!({"description": "x".repeat(40_000)}), "at most 32768"),
            (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "`string`"),
            (nested, "32 levels"),
            (json!({"properties": {"a": {"enum": ["one\u{200b}"]}}}), "`one`"),
            (json!({"properties": {"a\u{200b}": {}}}), "`a`"),
        ] {
            let reason = with_schema(&schema).refused.unwrap();
            assert!(reason.contains(word), "{reason}");
        }
        // What it refers to is not needed: the argument may be anything.
        for target in ["#/$defs/a", "https://example.com/schema"] {
            let schema = json!({"$defs": {}, "properties": {"a": {"$ref": target}}});
            assert_eq!(with_schema(&schema).refused, None);
        }
        assert!(listed("a\u{200b}", "").refused.is_some());
    }

    #[test]
    fn every_part_of_a_definition_is_pinned() {
        let definition = json!({
            "name": "t", "description": "d", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true},
        });
        let pin = of(&definition).pin.sha256;
        assert_eq!(of(&definition).pin.sha256, pin);
        for (key, value) in [
            ("name", json!("u")),
            ("description", json!("d\u{200b}")),
            ("inputSchema", json!({"type": "object", "required": ["a"]})),
            ("outputSchema", json!({"type": "object", "title": "x"})),
            ("annotations", json!({"readOnlyHint": false})),
        ] {
            let mut changed = definition.clone();
            changed[key] = value;
            assert_ne!(of(&changed).pin.sha256, pin, "{key}");
        }
    }

    #[test]
    fn hash_does_not_depend_on_the_order_of_keys() {
        let one = json!({"b": [{"y": 1, "x": 2}], "a": null});
        let two: Value = serde_json::from_str(r#"{"a":null,"b":[{"x":2,"y":1}]}"#).unwrap();
        assert_eq!(sha256_of(one.clone()), sha256_of(two));
        assert_ne!(sha256_of(one), sha256_of(json!({"b": [{"y": 1, "x": 3}], "a": null})));
    }
}
