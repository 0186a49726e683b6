//! JSON schemas of documents: that of requests, whose containers hold any step, and that which models are offered, whose containers
//! hold only steps without steps. (Providers differ in what they make of a schema that refers to itself.)
//!
//! They describe the form. What depends on more than one value, such as names and cycles, is for [`Document::parse`](super::Document::parse).

use serde_json::{Map, Value, json};

use super::document::{MAX_STEPS, MAX_TURNS};

/// Maximum number of steps in a document of a model.
const STEPS_OF_MODEL: usize = 30;

/// The schema of a document in a request.
pub fn request_schema() -> Value {
    let any = json!({"$ref": "#/$defs/step"});
    let mut schema = document(&any, MAX_STEPS);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["$defs"] = json!({"step": {"oneOf": ([leaves(), containers(&any)].concat())}});
    schema
}

/// The schema of a document that models write, as the arguments of `create_plan`. All types of steps share one list of fields, as
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
    document(
        &of_any_type(&["tool", "llm", "task", "input", "condition", "parallel", "loop"], fields),
        STEPS_OF_MODEL,
    )
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

fn document(step: &Value, steps: usize) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["v", "goal", "steps"],
        "properties": {
            "v": {"const": 1, "description": "Version of the format."},
            "goal": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "What the plan is for."},
            "steps": {"type": "array", "minItems": 1, "maxItems": steps, "items": step},
            "output": {"description": "Template of the result, as in \"{{ pick.result }}\"."}
        }
    })
}

fn leaves() -> Vec<Value> {
    let schema = json!({"type": "object", "description": "JSON schema of the answer."});
    vec![
        step(
            "tool",
            &["tool"],
            json!({
                "tool": {"type": "string", "description": "Name of a tool that you may call."},
                "args": {"type": "object", "description": "Its arguments. A text that is exactly one {{ … }} keeps the type of the value."}
            }),
        ),
        step(
            "llm",
            &["prompt"],
            json!({
                "prompt": {"type": "string", "description": "Template. One call of a model, without tools."},
                "schema": schema,
                "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 100_000}
            }),
        ),
        step(
            "task",
            &["instructions"],
            json!({
                "instructions": {"type": "string", "description": "Template. An agent of its own carries them out."},
                "tools": {"type": "array", "maxItems": 30, "items": {"type": "string"}},
                "context": {"type": "array", "maxItems": 20, "items": {"type": "string"}, "description": "Ids of steps whose results it reads."},
                "schema": schema
            }),
        ),
        step(
            "input",
            &["question"],
            json!({
                "question": {"type": "string", "description": "Template. A person answers."},
                "schema": schema,
                "default": {"description": "The answer if there is none in time."},
                "expires_s": {"type": "integer", "minimum": 1, "maximum": 604_800}
            }),
        ),
    ]
}

fn containers(inner: &Value) -> Vec<Value> {
    let list = json!({"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": inner});
    let expression = json!({"type": "string", "minLength": 1, "maxLength": 1000});
    let at_once = json!({"type": "integer", "minimum": 1, "maximum": 20});
    vec![
        step(
            "condition",
            &["if", "then"],
            json!({
                "if": expression, "then": list, "else": {"type": "array", "maxItems": MAX_STEPS, "items": inner}
            }),
        ),
        step(
            "parallel",
            &["steps"],
            json!({
                "steps": list, "join": {"enum": ["all", "any", "settled"]}, "at_once": at_once
            }),
        ),
        step(
            "loop",
            &["max", "steps"],
            json!({
                "over": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "Expression of a list. Either this or `while`."},
                "while": expression,
                "as": name("Variable of the item; `item` if it is left out."),
                "max": {"type": "integer", "minimum": 1, "maximum": MAX_TURNS},
                "at_once": at_once,
                "steps": list
            }),
        ),
    ]
}

fn name(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 32, "pattern": "^[a-z][a-z0-9_]{0,31}$", "description": description})
}

/// The schema of a type of step: what all have, and its own fields.
fn step(kind: &str, required: &[&str], own: Value) -> Value {
    let mut fields = map(json!({
        "type": {"const": kind},
        "id": name("Unique in its list."),
        "title": {"type": "string", "maxLength": 120, "description": "What people read."},
        "after": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_STEPS,
            "description": "Ids of the same list that come before. What templates name is added."},
        "when": {"type": "string", "maxLength": 1000, "description": "Expression; false: it is skipped."},
        "retry": {"type": "object", "additionalProperties": false, "required": ["max"], "properties": {
            "max": {"type": "integer", "minimum": 0, "maximum": 5},
            "base_ms": {"type": "integer", "minimum": 0, "maximum": 60_000}}},
        "timeout_s": {"type": "integer", "minimum": 1, "maximum": 86_400},
        "on_error": {"enum": ["replan", "fail", "continue"]}
    }));
    fields.extend(map(own));
    let required = [&["type", "id"], required].concat();
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": fields})
}
