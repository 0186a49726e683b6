//! References (`$ref`) within a document.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::Pointer;
use crate::json_api::{MAX_ENDPOINTS, MAX_SCHEMA, Problem};

/// The most references that follow each other.
const MAX_CHAIN: usize = 16;
/// The deepest nesting of a schema.
const MAX_DEPTH: usize = 32;
/// The most values of a schema whose references are replaced. Few lines of references can stand for billions.
const MAX_VALUES: usize = 5_000;
/// The most bytes of such a schema: twice what an endpoint may have, because what is for people is left out later.
const MAX_BYTES: usize = 2 * MAX_SCHEMA;
/// The most bytes of all of them: what the most endpoints may have.
const MAX_ALL_BYTES: usize = MAX_ENDPOINTS * MAX_SCHEMA;

/// A document whose references can be followed.
pub(super) struct Document<'d> {
    root: &'d Value,
    /// How many bytes of schemas may still be copied.
    left_bytes: Cell<usize>,
}

impl<'d> Document<'d> {
    pub(super) fn new(root: &'d Value) -> Self {
        Self { root, left_bytes: Cell::new(MAX_ALL_BYTES) }
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
        let bytes = MAX_BYTES.min(self.left_bytes.get());
        let mut expansion =
            Expansion { document: self, at, open: Vec::new(), left: MAX_VALUES, left_bytes: bytes };
        let expanded = expansion.expanded(value, 0, true);
        self.left_bytes.set(self.left_bytes.get() - (bytes - expansion.left_bytes));
        expanded
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
    left_bytes: usize,
}

impl<'d> Expansion<'_, 'd> {
    fn expanded(&mut self, value: &'d Value, depth: usize, is_schema: bool) -> Result<Value, Problem> {
        if depth > MAX_DEPTH || self.left == 0 {
            return Err(self.too_large());
        }
        self.left -= 1;
        self.copies(value.as_str().map_or(1, str::len))?;
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

    /// # Errors
    /// If so many bytes may not be copied any more.
    fn copies(&mut self, bytes: usize) -> Result<(), Problem> {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        if self.left_bytes == 0 { Err(self.too_large()) } else { Ok(()) }
    }

    fn too_large(&self) -> Problem {
        self.at.problem("this schema is too large or nested too deeply")
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
            self.copies(name.len())?;
            let copied = if is_data {
                self.copies(data_bytes(field))?;
                field.clone()
            } else {
                self.expanded(field, depth + 1, !is_map)?
            };
            copy.insert(name.clone(), copied);
        }
        Ok(Value::Object(copy))
    }
}

/// About the bytes of a value as JSON.
fn data_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 1 + data_bytes(item)).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + data_bytes(field)).sum(),
        _ => 4,
    }
}
