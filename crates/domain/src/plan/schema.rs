//! The JSON schema of documents that models write. Containers hold only steps without steps, as providers differ in what they make
//! of a schema that refers to itself.
//!
//! It describes the form. What depends on more than one value, such as names and cycles, is for [`Document::parse`](super::Document::parse).

use serde_json::{Map, Value, json};

/// Maximum number of steps in a document of a model.
const STEPS_OF_MODEL: usize = 30;

/// The schema of a document, as the arguments of `create_plan`. All types of steps share one list of fields, as
/// each request to a model contains it; which type has which fields is checked when the document is read.
pub fn model_schema() -> Value {
    let leaf = of_any_type(&["tool", "llm", "task", "input"], brief_fields());
    let list = json!({"type": "array", "items": leaf});
    let mut fields = brief_fields();
    fields.extend(map(json!({
        "if": {"type": "string", "description": "condition: an expression."},
        "then": list,
        "else": list,
        "steps": list,
        "join": {"enum": ["all", "any", "settled"]},
        "over": {"type": "string", "description": "loop: an expression of a list, or `while`."},
        "while": {"type": "string"},
        "as": {"type": "string"},
        "max": {"type": "integer"},
        "at_once": {"type": "integer"}
    })));
    let step = of_any_type(&["tool", "llm", "task", "input", "condition", "parallel", "loop"], fields);
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["v", "goal", "steps"],
        "properties": {
            "v": {"const": 1, "description": "Version of the format."},
            "goal": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "What the plan is for."},
            "steps": {"type": "array", "minItems": 1, "maxItems": STEPS_OF_MODEL, "items": step},
            "output": {"description": "Template of the result, as in \"{{ pick.result }}\"."}
        }
    })
}

fn of_any_type(types: &[&str], mut fields: Map<String, Value>) -> Value {
    fields.insert("type".to_owned(), json!({"enum": types}));
    json!({"type": "object", "additionalProperties": false, "required": ["type", "id"], "properties": fields})
}

/// The fields of steps without steps, in as few words as possible.
fn brief_fields() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let object = json!({"type": "object"});
    let texts = json!({"type": "array", "items": text});
    map(json!({
        "id": text, "title": text, "after": texts, "when": text, "timeout_s": number,
        "retry": {"type": "object", "properties": {"max": number, "base_ms": number}},
        "on_error": {"enum": ["replan", "fail", "continue"]},
        "tool": text, "args": object,
        "prompt": text, "schema": object, "max_output_tokens": number,
        "instructions": text, "tools": texts, "context": texts,
        "question": text, "default": {}, "expires_s": number
    }))
}

fn map(fields: Value) -> Map<String, Value> {
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
