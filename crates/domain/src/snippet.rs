//! Snippets: code that agents keep for a user, and the tools that some of them are.
//!
//! # Bounds
//! How long a name, a description and code may be is a constant here. How many snippets a user may have is `max_snippets` of
//! `jobs/knowledge.toml`, how many of them may be tools `snippet_tools` of `jobs/sandbox.toml`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::names::is_plain_name;
use crate::time::Time;

/// Maximum length of a name, in characters.
pub const MAX_NAME_CHARS: usize = 40;
/// Maximum length of a description, in characters: one line.
pub const MAX_DESCRIPTION_CHARS: usize = 500;
/// Maximum length of the code, in characters. The sandbox takes some more, so that there is room for the input.
pub const MAX_CODE_CHARS: usize = 40_000;
/// Maximum length of the JSON schema of a tool's arguments, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 8 * 1024;
/// What the names of tools begin with that are snippets. No other tool may have such a name.
pub const TOOL_PREFIX: &str = "snippet__";

/// A snippet without its code.
///
/// ```json
/// {"name": "monthly_report", "language": "javascript", "description": "Sums the orders of a month.", "chars": 420,
///  "tool": "snippet__monthly_report", "untrusted": false, "created_at": "2026-11-22T09:00:02.000Z",
///  "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SnippetResponse))]
pub struct SnippetEntry {
    pub name: String,
    /// `javascript` or `typescript`.
    pub language: String,
    /// What it does: one line.
    pub description: String,
    /// Length of its code in characters.
    pub chars: u32,
    /// The name of the tool that it is; null: it is none.
    pub tool: Option<String>,
    /// Whether the agent that wrote it had read what strangers wrote.
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A snippet with its code.
///
/// ```json
/// {"name": "monthly_report", "language": "javascript", "description": "Sums the orders of a month.",
///  "code": "return input.orders.length", "tool": null, "input_schema": null, "untrusted": false,
///  "created_at": "2026-11-22T09:00:02.000Z", "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SnippetCodeResponse))]
pub struct Snippet {
    pub name: String,
    /// `javascript` or `typescript`.
    pub language: String,
    /// What it does: one line.
    pub description: String,
    /// The body of an async function, which reads its argument as `input`.
    pub code: String,
    /// The name of the tool that it is; null: it is none.
    pub tool: Option<String>,
    /// The JSON schema of the tool's arguments; null: it is no tool.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson, required = false))]
    pub input_schema: Option<Value>,
    /// The hash of what a person allowed, if it is a tool: see [`pin`].
    #[serde(skip)]
    pub pin: Option<String>,
    /// Whether the agent that wrote it had read what strangers wrote.
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A snippet that is a tool, as a run reads it: without the code.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SnippetTool {
    /// The name of the snippet.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub input_schema: Value,
    /// The hash of what a person allowed, see [`pin`].
    pub pin: String,
    /// Whether the session that wrote it had read what strangers wrote.
    pub untrusted: bool,
}

impl SnippetTool {
    /// The name of the tool.
    pub fn tool_name(&self) -> String {
        tool_name(&self.name)
    }
}

/// The name of the tool that a snippet of this name is.
pub fn tool_name(snippet: &str) -> String {
    format!("{TOOL_PREFIX}{snippet}")
}

/// Checks a name. Models read the error, as those of the other checks.
pub fn check_name(name: &str) -> Result<(), String> {
    ensure!(
        is_plain_name(name, b"_", MAX_NAME_CHARS),
        "`name` must be 1 to {MAX_NAME_CHARS} characters, small letters, digits and `_`, and begin with a letter: \
         `monthly_report`"
    );
    Ok(())
}

/// What is wrong with a text that has a character which cannot be stored.
const ZERO: &str =
    "the code or the schema contains the character U+0000, which cannot be stored: leave it out";

/// Checks the length of code.
pub fn check_code(code: &str) -> Result<(), String> {
    let chars = code.chars().count();
    ensure!(!code.contains('\0'), ZERO.to_owned());
    ensure!(
        chars <= MAX_CODE_CHARS,
        "`code` has {chars} characters; at most {MAX_CODE_CHARS} are allowed: split it into several snippets"
    );
    Ok(())
}

/// Checks the JSON schema of a tool's arguments: models are sent arguments of tools as an object only.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    let is_absent_or = |key: &str, is: fn(&Value) -> bool| schema.get(key).is_none_or(is);
    let is_of_object = schema["type"] == "object"
        && is_absent_or("properties", |all| {
            all.as_object().is_some_and(|all| all.values().all(Value::is_object))
        })
        && is_absent_or("required", |all| all.as_array().is_some_and(|all| all.iter().all(Value::is_string)));
    if !is_of_object {
        let form = r#"{"type": "object", "properties": {…}, "required": […]}"#;
        return Err(format!("`input_schema` must be a JSON schema of an object: {form}"));
    }
    let text = schema.to_string();
    ensure!(!text.contains("\\u0000"), ZERO.to_owned());
    let bytes = text.len();
    ensure!(
        bytes <= MAX_SCHEMA_BYTES,
        "`input_schema` has {bytes} bytes as JSON; at most {MAX_SCHEMA_BYTES} are allowed"
    );
    Ok(())
}

/// The hash of what a person allows who lets a snippet become a tool. A tool with another one is not called.
pub fn pin(name: &str, language: &str, description: &str, code: &str, schema: &Value) -> String {
    let mut hash = Sha256::new();
    let mut schema = schema.clone();
    // The database keeps its keys in another order.
    schema.sort_all_objects();
    for part in [name, language, description, code, &schema.to_string()] {
        // With their lengths, so that no text moves from one part to the next.
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_those_of_tools() {
        for name in ["a", "monthly_report", "x2", &"a".repeat(MAX_NAME_CHARS)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "_a", "2x", "A", "a-b", "a b", "ä", "a/b", &"a".repeat(MAX_NAME_CHARS + 1)] {
            assert!(check_name(name).unwrap_err().starts_with("`name` must be"), "{name}");
        }
    }

    #[test]
    fn schemas_are_those_of_objects() {
        let good = [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        ];
        for schema in good {
            assert_eq!(check_schema(&schema), Ok(()), "{schema}");
        }
        let wrong = [
            json!({}),
            json!([]),
            json!({"type": "array"}),
            json!({"type": "object", "properties": {"n": "integer"}}),
            json!({"type": "object", "required": "n"}),
        ];
        for schema in wrong {
            assert!(
                check_schema(&schema).unwrap_err().contains("of an object: {\"type\": \"object\", "),
                "{schema}"
            );
        }
        let long = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES)});
        assert!(check_schema(&long).unwrap_err().contains("bytes as JSON; at most 8192 are allowed"));
    }

    #[test]
    fn every_part_changes_the_pin_and_the_order_of_keys_does_not() {
        let schema = json!({"type": "object", "properties": {"a": {}, "b": {"x": 1, "y": 2}}});
        let other = json!({"properties": {"b": {"y": 2, "x": 1}, "a": {}}, "type": "object"});
        let first = pin("n", "javascript", "d", "c", &schema);
        assert_eq!(first, pin("n", "javascript", "d", "c", &other));
        let changed = [
            pin("m", "javascript", "d", "c", &schema),
            pin("n", "typescript", "d", "c", &schema),
            pin("n", "javascript", "dc", "", &schema),
            pin("n", "javascript", "d", "cc", &schema),
            pin("n", "javascript", "d", "c", &json!({"type": "object"})),
        ];
        assert!(changed.iter().all(|pin| *pin != first && pin.len() == 64));
    }
}
