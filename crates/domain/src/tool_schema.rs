//! [`read`]: the JSON Schema of a tool's arguments, in one form, whoever wrote it.
//!
//! MCP servers, OpenAPI documents and clients write schemas in several drafts of JSON Schema, in the dialect of OpenAPI 3.0, and
//! with mistakes. Providers refuse a whole request for one schema that they do not accept, so no tool is offered whose schema
//! was not read here. The crate `llm` writes what was read in the form that each provider accepts.
//!
//! What is read is a schema of draft 2020-12 with these properties:
//! - the root has the type `object`, and `properties`; it has no `anyOf`, `oneOf`, `allOf`, `not`, `enum` or `const`;
//! - there are no references and no definitions: what was referred to is in its place;
//! - an array has `items`, a list of types has at least two, and each name in `required` is a property;
//! - `allOf` and conditions are nowhere: the former is merged, the latter are described in words;
//! - reading it again changes nothing.
//!
//! What is lost is lost towards allowing more: the tool itself checks the arguments.

mod form;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use self::form::{Schema, add_text, listed_texts, once, properties, properties_mut, require, texts};
use crate::storable::size;

/// The most bytes of JSON of a schema as it is written outside, with its definitions.
pub const MAX_WRITTEN_BYTES: usize = 512 * 1024;

/// The most bytes of JSON of a schema that was read: about 16,000 tokens of each call.
pub const MAX_BYTES: usize = 64 * 1024;

/// The most levels of schemas in a schema; what is deeper may be any value.
pub const MAX_DEPTH: usize = 16;

/// The most schemas in a schema.
pub const MAX_SCHEMAS: usize = 4096;

/// The most bytes that are read for a schema: what is referred to several times counts each time.
const MAX_READ_BYTES: usize = 1024 * 1024;

/// How far references are followed. The first that makes a schema that is small enough is used.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// How often a schema may contain itself.
    repeats: usize,
    /// How many references are followed inside of each other.
    references: usize,
}

const LIMITS: [Limits; 4] = [
    Limits { repeats: 1, references: MAX_DEPTH },
    Limits { repeats: 0, references: MAX_DEPTH },
    Limits { repeats: 0, references: 4 },
    Limits { repeats: 0, references: 2 },
];

/// The schema in the one form. One that cannot be read is kept as it is: a tool with it is not offered, and says why.
pub fn in_form(schema: &Arc<Value>) -> Arc<Value> {
    match read(schema) {
        Ok(read) if read != **schema => Arc::new(read),
        Ok(_) | Err(_) => Arc::clone(schema),
    }
}

/// The schema in the one form.
///
/// # Errors
/// It is not the schema of an object, or too large. The text continues "the tool cannot be offered: …".
pub fn read(schema: &Value) -> Result<Value, String> {
    match schema {
        // Tools without arguments are written so.
        Value::Null | Value::Bool(true) => return Ok(Value::Object(form::root(Map::new())?)),
        Value::Object(_) => {}
        other => {
            return Err(format!("its schema is {}; it must be a JSON Schema, an object", form::kind(other)));
        }
    }
    let bytes = size(schema);
    ensure!(
        bytes <= MAX_WRITTEN_BYTES,
        "its schema has {bytes} bytes; at most {MAX_WRITTEN_BYTES} are allowed"
    );
    for limits in LIMITS {
        let Some(read) = Reader::new(schema, limits).read() else { continue };
        let read = Value::Object(form::root(read)?);
        if size(&read) <= MAX_BYTES {
            return Ok(read);
        }
    }
    let parts = format!("its schema has more than {MAX_SCHEMAS} parts or {MAX_BYTES} bytes");
    Err(format!("{parts} when what it refers to is put in its place"))
}

/// Keywords that depend on other values: they are described, and what they add to `properties` is united with it.
const CONDITIONS: [&str; 6] = ["if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"];

/// Reads one schema.
struct Reader<'a> {
    root: &'a Value,
    limits: Limits,
    /// The references that are being followed, the outermost first.
    open: Vec<&'a str>,
    /// How many schemas may still be read, and how many bytes of their own data; with none left, nothing more is read.
    left: usize,
    left_bytes: usize,
    /// The definitions that have a name of their own, by that name.
    named: HashMap<&'a str, &'a Value>,
}

impl<'a> Reader<'a> {
    fn new(root: &'a Value, limits: Limits) -> Self {
        let mut named = HashMap::new();
        for value in definitions(root).flat_map(Map::values) {
            let names = ["$anchor", "$dynamicAnchor", "$id", "id"].map(|key| value.get(key)?.as_str());
            for name in names.into_iter().flatten() {
                named.entry(name).or_insert(value);
            }
        }
        Self { root, limits, open: Vec::new(), left: MAX_SCHEMAS, left_bytes: MAX_READ_BYTES, named }
    }

    /// Whether so many bytes may still be read. If not, nothing more may.
    fn may_read(&mut self, bytes: usize) -> bool {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        if self.left_bytes == 0 {
            self.left = 0;
        }
        self.left > 0
    }

    /// The root; `None` when it has too many schemas.
    fn read(mut self) -> Option<Schema> {
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
        if !self.may_read(form::own_bytes(fields)) {
            return Schema::new();
        }
        let mut schema = form::own(fields);
        for (key, value) in fields {
            match key.as_str() {
                "properties" => self.properties(value, &mut schema, depth),
                "items" | "prefixItems" => self.items(key, value, &mut schema, depth),
                "additionalProperties" | "unevaluatedProperties" => {
                    let others = match value {
                        Value::Bool(_) => value.clone(),
                        Value::Object(_) => self.inner(value, depth),
                        _ => continue,
                    };
                    let is_any = others.as_object().is_some_and(Map::is_empty);
                    let others = if is_any { true.into() } else { others };
                    schema.insert("additionalProperties".to_owned(), others);
                }
                "patternProperties" => {
                    let Some(named) = value.as_object().filter(|named| !named.is_empty()) else { continue };
                    let named = named.iter().map(|(name, value)| (name.clone(), self.inner(value, depth)));
                    schema.insert(key.clone(), Value::Object(named.collect()));
                }
                "propertyNames" | "contains" | "not" if value.is_object() => {
                    schema.insert(key.clone(), self.inner(value, depth));
                }
                _ => {}
            }
        }
        form::settle(&mut schema);
        if let Some(target) = ["$ref", "$dynamicRef"].iter().find_map(|key| fields.get(*key)?.as_str()) {
            let referred = self.referred(target, depth);
            schema = all_of(schema, referred);
        }
        for part in form::listed(fields.get("allOf")) {
            let part = self.schema(part, depth + 1);
            schema = all_of(schema, part);
        }
        for keyword in ["anyOf", "oneOf"] {
            let branches: Vec<Schema> =
                form::listed(fields.get(keyword)).map(|branch| self.schema(branch, depth + 1)).collect();
            schema = alternatives(schema, keyword, branches);
        }
        self.conditions(fields, &mut schema, depth);
        form::settle(&mut schema);
        if ["nullable", "x-nullable"].iter().any(|key| fields.get(*key) == Some(&Value::Bool(true))) {
            form::allow_null(&mut schema);
        }
        schema
    }

    /// A schema in one of this depth, as a value.
    fn inner(&mut self, value: &'a Value, depth: usize) -> Value {
        Value::Object(self.schema(value, depth + 1))
    }

    fn properties(&mut self, value: &'a Value, schema: &mut Schema, depth: usize) {
        let named: Vec<(&str, &Value)> = match value {
            Value::Object(named) => named.iter().map(|(name, value)| (name.as_str(), value)).collect(),
            // PHP writes an empty object as a list; some list their arguments.
            Value::Array(listed) => {
                listed.iter().filter_map(|value| Some((value.get("name")?.as_str()?, value))).collect()
            }
            _ => return,
        };
        let (mut properties, mut required) = (Schema::new(), Vec::new());
        for (name, value) in named {
            // Of the object, written one level too deep.
            if name == "required" && value.is_array() {
                required.extend(form::texts(Some(value)));
                continue;
            }
            // Of draft 3.
            if value.get("required") == Some(&Value::Bool(true)) {
                required.push(name.to_owned());
            }
            properties.insert(name.to_owned(), self.inner(value, depth));
        }
        schema.insert("properties".to_owned(), Value::Object(properties));
        form::require(schema, required);
    }

    fn items(&mut self, key: &str, value: &'a Value, schema: &mut Schema, depth: usize) {
        match value {
            Value::Array(listed) if listed.is_empty() => {}
            // Before draft 2020-12 a tuple was `items` with a list.
            Value::Array(listed) => {
                let listed = listed.iter().map(|value| self.inner(value, depth));
                schema.insert("prefixItems".to_owned(), listed.collect());
            }
            Value::Object(_) | Value::String(_) if key == "items" => {
                schema.insert("items".to_owned(), self.inner(value, depth));
            }
            _ => {}
        }
    }

    /// Properties that only some values have are allowed for all; the rule itself is described.
    fn conditions(&mut self, fields: &'a Map<String, Value>, schema: &mut Schema, depth: usize) {
        let rules: Vec<(&str, &Value)> = CONDITIONS
            .iter()
            .filter_map(|key| Some((*key, fields.get(*key).filter(|value| value.is_object())?)))
            .collect();
        let bytes = rules.iter().map(|(_, rule)| size(rule)).sum();
        if rules.is_empty() || !self.may_read(bytes) {
            return;
        }
        let conditional = ["then", "else"].iter().filter_map(|key| fields.get(*key));
        let dependent =
            ["dependentSchemas", "dependencies"].iter().filter_map(|key| fields.get(*key)?.as_object());
        let dependent = dependent.flat_map(Map::values);
        for value in conditional.chain(dependent).filter(|value| value.is_object()).collect::<Vec<_>>() {
            let read = self.schema(value, depth + 1);
            add_properties(schema, &read);
        }
        if bytes <= form::MAX_RULE_BYTES {
            let rules = rules.into_iter().map(|(key, rule)| (key.to_owned(), rule.clone())).collect();
            form::describe(schema, &Value::Object(rules));
        }
    }

    /// What a reference refers to. Any value, if it is not in this schema, or contains itself too often.
    fn referred(&mut self, target: &'a str, depth: usize) -> Schema {
        if !self.may_read(target.len()) {
            return Schema::new();
        }
        let Some(value) = self.resolve(target) else { return Schema::new() };
        let repeats = self.open.iter().filter(|open| **open == target).count();
        if repeats > self.limits.repeats || self.open.len() >= self.limits.references {
            return value.as_object().map(form::cut).unwrap_or_default();
        }
        self.open.push(target);
        let schema = self.schema(value, depth + 1);
        self.open.pop();
        schema
    }

    /// The schema that `target` refers to: a JSON pointer, an anchor, or the bare name of a definition.
    fn resolve(&self, target: &str) -> Option<&'a Value> {
        let root = self.root;
        match target.strip_prefix('#') {
            Some(fragment) if fragment.is_empty() || fragment.starts_with('/') => root
                .pointer(fragment)
                .or_else(|| root.pointer(&percent_decode_str(fragment).decode_utf8_lossy())),
            Some(anchor) => self.named.get(anchor).copied(),
            None => {
                definitions(root).find_map(|all| all.get(target)).or_else(|| self.named.get(target).copied())
            }
        }
    }
}

/// The objects with definitions of a schema.
fn definitions(root: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    ["$defs", "definitions"].into_iter().filter_map(|key| root.get(key)?.as_object())
}

/// The most alternatives that are described.
const MAX_DESCRIBED: usize = 12;

/// A schema for what matches both; where that cannot be said, for more. Titles and descriptions are those of `first`.
fn all_of(mut first: Schema, second: Schema) -> Schema {
    if first.is_empty() {
        return second;
    }
    let closed =
        [&first, &second].iter().any(|one| one.get("additionalProperties") == Some(&Value::Bool(false)));
    for (key, value) in second {
        let Some(place) = first.get_mut(&key) else {
            first.insert(key, value);
            continue;
        };
        // Taken and put back, because a copy for each part of a long `allOf` would take long.
        let before = place.take();
        *place = both(&key, before, value);
    }
    if closed {
        // Their properties are united, so that each knows those of the other.
        first.insert("additionalProperties".to_owned(), false.into());
    }
    form::settle(&mut first);
    with_own_properties(first)
}

/// The value of a keyword of a schema for what matches both.
fn both(keyword: &str, before: Value, value: Value) -> Value {
    match (keyword, before, value) {
        ("properties", Value::Object(before), Value::Object(value)) => both_properties(before, value).into(),
        ("required", before, value) => json!(form::distinct(&[list(&before), list(&value)].concat())),
        ("type", before, value) => both_types(&before, &value),
        ("enum", before, value) => {
            let others: HashSet<&Value> = value.as_array().into_iter().flatten().collect();
            let common: Vec<Value> = list(&before).into_iter().filter(|one| others.contains(one)).collect();
            if common.is_empty() { before } else { Value::Array(common) }
        }
        ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", before, value)
            if value.as_f64() > before.as_f64() =>
        {
            value
        }
        ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", before, value)
            if value.as_f64() < before.as_f64() =>
        {
            value
        }
        ("items", Value::Object(before), Value::Object(value)) => Value::Object(all_of(before, value)),
        (_, before, _) => before,
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn both_properties(mut named: Schema, others: Schema) -> Schema {
    for (name, value) in others {
        let both = match (named.get_mut(&name).map(Value::take), value) {
            (Some(Value::Object(first)), Value::Object(second)) => Value::Object(all_of(first, second)),
            (_, value) => value,
        };
        named.insert(name, both);
    }
    named
}

/// The types that both allow. If there are none, the first are kept: a value that cannot be is of no use to a model.
fn both_types(first: &Value, second: &Value) -> Value {
    let pairs = listed_texts(first).flat_map(|one| listed_texts(second).map(move |other| (one, other)));
    let common = pairs.filter_map(|pair| match pair {
        (one, other) if one == other => Some(one),
        ("integer", "number") | ("number", "integer") => Some("integer"),
        _ => None,
    });
    form::one_or_several(common).unwrap_or_else(|| first.clone())
}

/// A schema for what matches `schema` and one of `branches`.
fn alternatives(schema: Schema, keyword: &str, branches: Vec<Schema>) -> Schema {
    let possible = branches.into_iter().filter(|branch| *branch != form::never());
    let flat = possible.flat_map(|branch| match branch.get("anyOf").filter(|_| branch.len() == 1) {
        Some(nested) => list(nested).into_iter().filter_map(object).collect(),
        None => vec![branch],
    });
    match once(flat).as_slice() {
        [] => schema,
        [one] => all_of(schema, one.clone()),
        // One of two rules with alternatives is enough.
        _ if schema.contains_key(keyword) => schema,
        several => {
            let mut schema = schema;
            schema.insert(keyword.to_owned(), json!(several));
            with_own_properties(schema)
        }
    }
}

/// The schema without alternatives that only say which of its properties an object has.
fn with_own_properties(mut schema: Schema) -> Schema {
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = schema.get(keyword) else { continue };
        let of_object = |branch: &Value| branch.as_object().is_some_and(is_of_object);
        if properties(&schema).is_some() && branches.iter().all(of_object) {
            let branches = branches.iter().cloned().filter_map(object).collect();
            schema.shift_remove(keyword);
            schema = folded(schema, branches);
        }
    }
    schema
}

fn object(value: Value) -> Option<Schema> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Whether a schema only says which properties an object has.
fn is_of_object(schema: &Schema) -> bool {
    let mut types = form::types_of(schema);
    types.all(|name| name == "object")
        && !["anyOf", "oneOf", "enum", "const"].iter().any(|key| schema.contains_key(*key))
}

/// One schema of an object for several: it has the properties of all, and those required that all require. Which belong
/// together is described.
fn folded(mut schema: Schema, branches: Vec<Schema>) -> Schema {
    let Some((first, others)) = branches.split_first() else { return schema };
    let mut named: Vec<(&String, Vec<&Schema>)> = Vec::new();
    for (name, value) in branches.iter().filter_map(properties).flatten() {
        let Value::Object(value) = value else { continue };
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => named.push((name, vec![value])),
        }
    }
    let united: Map<String, Value> =
        named.into_iter().map(|(name, values)| (name.clone(), Value::Object(any_of(&values)))).collect();
    let others: Vec<HashSet<String>> =
        others.iter().map(|other| texts(other.get("required")).collect()).collect();
    let required: Vec<String> =
        texts(first.get("required")).filter(|name| others.iter().all(|other| other.contains(name))).collect();
    let text = described(&schema, &branches, &required);
    let is_closed =
        branches.iter().all(|branch| branch.get("additionalProperties") == Some(&Value::Bool(false)));
    if let Some(properties) = properties_mut(&mut schema) {
        *properties = both_properties(std::mem::take(properties), united);
    }
    require(&mut schema, required);
    if is_closed {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    if !text.is_empty() {
        add_text(&mut schema, &text);
    }
    form::settle(&mut schema);
    schema
}

/// Adds the properties that a schema does not have yet.
fn add_properties(schema: &mut Schema, other: &Schema) {
    for (name, value) in properties(other).into_iter().flatten() {
        if let Some(named) = properties_mut(schema) {
            named.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// A schema for what matches one of several.
fn any_of(schemas: &[&Schema]) -> Schema {
    match once(schemas.iter().copied().filter(|schema| !schema.is_empty())).as_slice() {
        [] => Schema::new(),
        [one] => (*one).clone(),
        several => choices(several).unwrap_or_else(|| {
            let alone = several.iter().map(|one| (*one).clone()).collect();
            alternatives(Schema::new(), "anyOf", alone)
        }),
    }
}

/// Schemas that each allow only a few values, as one.
fn choices(schemas: &[&Schema]) -> Option<Schema> {
    let mut united = Vec::new();
    for schema in schemas {
        let plain = ["type", "const", "enum", "title", "description", "default", "examples"];
        if !schema.keys().all(|key| plain.contains(&key.as_str())) {
            return None;
        }
        match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => united.push(value.clone()),
            (None, Some(Value::Array(values))) => united.extend(values.iter().cloned()),
            _ => return None,
        }
    }
    let mut schema = Schema::new();
    let kind = schemas.first()?.get("type");
    if let Some(kind) = kind.filter(|_| schemas.iter().all(|schema| schema.get("type") == kind)) {
        schema.insert("type".to_owned(), kind.clone());
    }
    if let Some(description) = schemas.iter().find_map(|schema| schema.get("description")) {
        schema.insert("description".to_owned(), description.clone());
    }
    schema.insert("enum".to_owned(), Value::Array(form::distinct(&united)));
    Some(schema)
}

/// Which properties belong together, if the alternatives require different ones.
fn described(schema: &Schema, branches: &[Schema], required: &[String]) -> String {
    let needed: HashSet<String> = texts(schema.get("required")).chain(required.iter().cloned()).collect();
    let set = |branch: &Schema| {
        let fixed = |name: &String| properties(branch)?.get(name)?.get("const").cloned();
        let names = texts(branch.get("required")).filter_map(|name| match fixed(&name) {
            Some(value) => Some(format!("`{name}` = {value}")),
            None if needed.contains(&name) => None,
            None => Some(format!("`{name}`")),
        });
        names.collect::<Vec<_>>().join(" with ")
    };
    let sets = once(branches.iter().map(set).filter(|set| !set.is_empty()));
    if sets.len() < 2 || sets.len() > MAX_DESCRIBED {
        return String::new();
    }
    format!("Give one of: {}.", sets.join("; or "))
}

#[cfg(test)]
mod tests;
