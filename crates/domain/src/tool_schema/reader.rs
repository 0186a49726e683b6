//! [`Reader`]: reads schemas, with what they refer to in its place.

use serde_json::{Map, Value, json};

use super::form::{self, Schema};
use super::{Limits, MAX_DEPTH, MAX_SCHEMAS, merge};

/// Keywords that depend on other values: they are described, and what they add to `properties` is united with it.
const CONDITIONS: [&str; 6] = ["if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"];

/// Reads one schema.
pub(super) struct Reader<'a> {
    root: &'a Value,
    limits: Limits,
    /// The references that are being followed, the outermost first.
    open: Vec<&'a str>,
    /// How many schemas may still be read.
    left: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a Value, limits: Limits) -> Self {
        Self { root, limits, open: Vec::new(), left: MAX_SCHEMAS }
    }

    /// The root; `None` when it has too many schemas.
    pub(super) fn read(mut self) -> Option<Schema> {
        let schema = self.schema(self.root, 0);
        (self.left > 0).then_some(schema)
    }

    fn schema(&mut self, value: &'a Value, depth: usize) -> Schema {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Schema::new();
        }
        match value {
            Value::Bool(false) => form::never(),
            // A type instead of a schema.
            Value::String(_) => form::own(&Map::from_iter([("type".to_owned(), value.clone())])),
            Value::Object(fields) if depth < MAX_DEPTH => self.object(fields, depth),
            Value::Object(fields) => form::cut(fields),
            _ => Schema::new(),
        }
    }

    fn object(&mut self, fields: &'a Map<String, Value>, depth: usize) -> Schema {
        let mut schema = form::own(fields);
        for (key, value) in fields {
            match key.as_str() {
                "properties" => self.properties(value, &mut schema, depth),
                "items" | "prefixItems" => self.items(key, value, &mut schema, depth),
                "additionalProperties" | "unevaluatedProperties" => {
                    let others = match value {
                        Value::Bool(_) => value.clone(),
                        Value::Object(_) => Value::Object(self.schema(value, depth + 1)),
                        _ => continue,
                    };
                    let is_any = others.as_object().is_some_and(Map::is_empty);
                    schema
                        .insert("additionalProperties".to_owned(), if is_any { true.into() } else { others });
                }
                "patternProperties" => {
                    let Some(named) = value.as_object().filter(|named| !named.is_empty()) else { continue };
                    let read = |(pattern, value): (&String, &'a Value)| {
                        (pattern.clone(), Value::Object(self.schema(value, depth + 1)))
                    };
                    schema.insert(key.clone(), Value::Object(named.iter().map(read).collect()));
                }
                "propertyNames" | "contains" | "not" if value.is_object() => {
                    schema.insert(key.clone(), Value::Object(self.schema(value, depth + 1)));
                }
                _ => {}
            }
        }
        form::settle(&mut schema);
        if let Some(target) = ["$ref", "$dynamicRef"].iter().find_map(|key| fields.get(*key)?.as_str()) {
            let referred = self.referred(target, depth);
            schema = merge::all(schema, referred);
        }
        for part in form::listed(fields.get("allOf")) {
            let part = self.schema(part, depth + 1);
            schema = merge::all(schema, part);
        }
        for keyword in ["anyOf", "oneOf"] {
            let branches: Vec<Schema> =
                form::listed(fields.get(keyword)).map(|branch| self.schema(branch, depth + 1)).collect();
            schema = merge::alternatives(schema, keyword, branches);
        }
        self.conditions(fields, &mut schema, depth);
        form::settle(&mut schema);
        if ["nullable", "x-nullable"].iter().any(|key| fields.get(*key) == Some(&Value::Bool(true))) {
            form::allow_null(&mut schema);
        }
        schema
    }

    fn properties(&mut self, value: &'a Value, schema: &mut Schema, depth: usize) {
        let mut properties = Schema::new();
        let mut required = Vec::new();
        match value {
            Value::Object(named) => {
                for (name, value) in named {
                    // Of the object, written one level too deep.
                    if name == "required" && value.is_array() {
                        required.extend(form::texts(Some(value)));
                        continue;
                    }
                    // Of draft 3.
                    if value.get("required") == Some(&Value::Bool(true)) {
                        required.push(name.clone());
                    }
                    properties.insert(name.clone(), Value::Object(self.schema(value, depth + 1)));
                }
            }
            // PHP writes an empty object as a list; some list their arguments.
            Value::Array(listed) => {
                for value in listed {
                    let Some(name) = value.get("name").and_then(Value::as_str) else { continue };
                    if value.get("required") == Some(&Value::Bool(true)) {
                        required.push(name.to_owned());
                    }
                    properties.insert(name.to_owned(), Value::Object(self.schema(value, depth + 1)));
                }
            }
            _ => return,
        }
        schema.insert("properties".to_owned(), Value::Object(properties));
        form::require(schema, required);
    }

    fn items(&mut self, key: &str, value: &'a Value, schema: &mut Schema, depth: usize) {
        match value {
            Value::Array(listed) if listed.is_empty() => {}
            // Before draft 2020-12 a tuple was `items` with a list.
            Value::Array(listed) => {
                let listed = listed.iter().map(|value| Value::Object(self.schema(value, depth + 1)));
                schema.insert("prefixItems".to_owned(), listed.collect());
            }
            Value::Object(_) | Value::String(_) if key == "items" => {
                schema.insert("items".to_owned(), Value::Object(self.schema(value, depth + 1)));
            }
            _ => {}
        }
    }

    /// Properties that only some values have are allowed for all; the rule itself is described.
    fn conditions(&mut self, fields: &'a Map<String, Value>, schema: &mut Schema, depth: usize) {
        let rules: Map<String, Value> = CONDITIONS
            .iter()
            .filter_map(|key| {
                Some(((*key).to_owned(), fields.get(*key).filter(|value| value.is_object())?.clone()))
            })
            .collect();
        if rules.is_empty() {
            return;
        }
        let conditional = ["then", "else"].iter().filter_map(|key| fields.get(*key));
        let dependent =
            ["dependentSchemas", "dependencies"].iter().filter_map(|key| fields.get(*key)?.as_object());
        let dependent = dependent.flat_map(Map::values);
        for value in conditional.chain(dependent).filter(|value| value.is_object()).collect::<Vec<_>>() {
            let read = self.schema(value, depth + 1);
            merge::add_properties(schema, &read);
        }
        form::describe(schema, &Value::Object(rules));
    }

    /// What a reference refers to. Any value, if it is not in this schema, or contains itself too often.
    fn referred(&mut self, target: &'a str, depth: usize) -> Schema {
        let Some(value) = resolve(self.root, target) else { return Schema::new() };
        let repeats = self.open.iter().filter(|open| **open == target).count();
        if repeats > self.limits.repeats || self.open.len() >= self.limits.references {
            return value.as_object().map(form::cut).unwrap_or_default();
        }
        self.open.push(target);
        let schema = self.schema(value, depth + 1);
        self.open.pop();
        schema
    }
}

/// The schema that `target` refers to, within `root`: a JSON pointer, an anchor, or the bare name of a definition.
fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    let definitions = || ["$defs", "definitions"].into_iter().filter_map(|key| root.get(key)?.as_object());
    let Some(fragment) = target.strip_prefix('#') else {
        return definitions().find_map(|named| {
            let is_meant =
                |value: &&Value| ["$id", "id"].iter().any(|key| value.get(*key) == Some(&json!(target)));
            named.get(target).or_else(|| named.values().find(is_meant))
        });
    };
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(fragment).or_else(|| root.pointer(&form::percent_decoded(fragment)));
    }
    definitions().flat_map(Map::values).find(|value| {
        value.get("$anchor") == Some(&json!(fragment))
            || value.get("$dynamicAnchor") == Some(&json!(fragment))
    })
}
