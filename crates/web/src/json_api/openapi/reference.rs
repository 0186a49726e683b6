//! References (`$ref`) within a document.

use serde_json::{Map, Value};

use super::pointer::Pointer;
use crate::json_api::Problem;

/// The most references that follow each other.
const MAX_CHAIN: usize = 16;
/// The deepest nesting of a schema.
const MAX_DEPTH: usize = 32;
/// The most values of a schema whose references are replaced. Few lines of references can stand for billions.
const MAX_VALUES: usize = 5_000;

/// A document whose references can be followed.
pub(super) struct Document<'d> {
    root: &'d Value,
}

impl<'d> Document<'d> {
    pub(super) fn new(root: &'d Value) -> Self {
        Self { root }
    }

    /// What a value refers to, or the value itself.
    pub(super) fn resolved(&self, mut value: &'d Value, at: &Pointer) -> Result<&'d Value, Problem> {
        for _ in 0..MAX_CHAIN {
            let Some(target) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
            value = self.target(target, at)?;
        }
        Err(at.problem("references lead to references without an end"))
    }

    fn target(&self, target: &str, at: &Pointer) -> Result<&'d Value, Problem> {
        let Some(pointer) = target.strip_prefix('#') else {
            let message =
                format!("`{target}` is in another document; only references within this one are followed");
            return Err(at.problem(message));
        };
        self.root.pointer(pointer).ok_or_else(|| at.problem(format!("there is no `{target}`")))
    }

    /// A schema with its references replaced. A schema that contains itself is cut with `{}`, which allows anything.
    pub(super) fn schema(&self, value: &'d Value, at: &Pointer) -> Result<Value, Problem> {
        let mut expansion = Expansion { document: self, at, open: Vec::new(), left: MAX_VALUES };
        expansion.expanded(value, 0, true)
    }
}

/// Replaces the references of one schema.
struct Expansion<'a, 'd> {
    document: &'a Document<'d>,
    at: &'a Pointer,
    /// The references that lead to the current value.
    open: Vec<&'d str>,
    /// How many values may still be copied.
    left: usize,
}

impl<'d> Expansion<'_, 'd> {
    fn expanded(&mut self, value: &'d Value, depth: usize, is_schema: bool) -> Result<Value, Problem> {
        if depth > MAX_DEPTH || self.left == 0 {
            return Err(self.at.problem("this schema is too large or nested too deeply"));
        }
        self.left -= 1;
        match value {
            Value::Object(fields) => match fields.get("$ref").and_then(Value::as_str) {
                Some(target) if is_schema => self.reference(target, depth),
                _ => self.fields(fields, depth, is_schema),
            },
            Value::Array(items) => {
                items.iter().map(|item| self.expanded(item, depth + 1, is_schema)).collect()
            }
            plain => Ok(plain.clone()),
        }
    }

    fn reference(&mut self, target: &'d str, depth: usize) -> Result<Value, Problem> {
        if self.open.contains(&target) {
            return Ok(Value::Object(Map::new()));
        }
        let referenced = self.document.target(target, self.at)?;
        self.open.push(target);
        let expanded = self.expanded(referenced, depth + 1, true);
        self.open.pop();
        expanded
    }

    fn fields(
        &mut self,
        fields: &'d Map<String, Value>,
        depth: usize,
        is_schema: bool,
    ) -> Result<Value, Problem> {
        let mut copy = Map::with_capacity(fields.len());
        for (name, field) in fields {
            // For people who read the document; a model pays for them.
            if is_schema && ["example", "examples", "xml", "externalDocs"].contains(&name.as_str()) {
                continue;
            }
            // The keys of `properties` are names that the customer chose.
            let is_map = is_schema && ["properties", "patternProperties", "$defs"].contains(&name.as_str());
            let is_data = is_schema && ["enum", "const", "default"].contains(&name.as_str());
            let copied = if is_data { field.clone() } else { self.expanded(field, depth + 1, !is_map)? };
            copy.insert(name.clone(), copied);
        }
        Ok(Value::Object(copy))
    }
}
