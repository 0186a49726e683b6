//! The parts of a schema in the one form.

use std::collections::HashSet;

use serde_json::{Map, Number, Value, json};

use super::{folded, object};
use crate::storable::size;

/// The fields of a schema.
pub(super) type Schema = Map<String, Value>;

/// The longest rule that is described in words, in bytes of JSON.
pub(super) const MAX_RULE_BYTES: usize = 800;

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// Keywords that only values of some types have.
const OF_TYPES: [(&[&str], &[&str]); 4] = [
    (
        &["object"],
        &[
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
        ],
    ),
    (&["array"], &["items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"]),
    (&["string"], &["pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"]),
    (&["number", "integer"], &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

/// Keywords whose values are schemas, or hold some.
const SCHEMAS: [&str; 19] = [
    "properties",
    "items",
    "prefixItems",
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "contains",
    "not",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
];

/// What a schema says by itself, without the schemas in it.
pub(super) fn own(fields: &Map<String, Value>) -> Schema {
    let mut schema = Schema::new();
    if let Some(types) = types(fields.get("type")) {
        schema.insert("type".to_owned(), types);
    }
    for (key, value) in fields {
        let read = match (key.as_str(), value) {
            (
                "title" | "description" | "format" | "pattern" | "contentEncoding" | "contentMediaType",
                Value::String(_),
            )
            | ("default" | "const", _) => Some(value.clone()),
            ("examples", Value::Array(listed)) if !listed.is_empty() => Some(value.clone()),
            ("example", _) if !fields.contains_key("examples") => Some(json!([value])),
            ("enum", Value::Array(listed)) if !listed.is_empty() => Some(Value::Array(distinct(listed))),
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", _) => {
                number(value).map(Value::Number)
            }
            ("multipleOf" | "divisibleBy", _) => {
                number(value).filter(|by| by.as_f64() > Some(0.0)).map(Value::Number)
            }
            ("minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties", _) => {
                count(value).map(Value::from)
            }
            ("uniqueItems", Value::Bool(true)) => Some(value.clone()),
            ("required", Value::Array(_)) => Some(json!(texts(Some(value)).collect::<Vec<_>>())),
            _ => None,
        };
        let Some(read) = read else { continue };
        let key = match key.as_str() {
            "example" => "examples",
            "divisibleBy" => "multipleOf",
            key => key,
        };
        schema.insert(key.to_owned(), read);
    }
    // Of draft 4.
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if fields.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = schema.shift_remove(limit)
        {
            schema.insert(exclusive.to_owned(), value);
        }
    }
    schema
}

/// Bytes of what [`own`] reads.
pub(super) fn own_bytes(fields: &Map<String, Value>) -> usize {
    let is_schema = |key: &str| SCHEMAS.contains(&key);
    fields.iter().filter(|(key, _)| !is_schema(key)).map(|(key, value)| key.len() + size(value)).sum()
}

/// What is kept of a schema that is too deep.
pub(super) fn cut(fields: &Map<String, Value>) -> Schema {
    let kept = ["type", "description", "title"];
    let kept = kept.iter().filter_map(|key| Some(((*key).to_owned(), fields.get(*key)?.clone())));
    let mut schema = own(&kept.collect());
    settle(&mut schema);
    schema
}

/// The schema that no value matches.
pub(super) fn never() -> Schema {
    Schema::from_iter([("not".to_owned(), json!({}))])
}

/// Gives each array its items, each object its required properties, and takes away what its types do not have.
pub(super) fn settle(schema: &mut Schema) {
    infer_type(schema);
    choices_of_items(schema);
    let types: Vec<String> = types_of(schema).map(str::to_owned).collect();
    let has = |wanted: &[&str]| types.is_empty() || types.iter().any(|name| wanted.contains(&name.as_str()));
    for (of, keywords) in OF_TYPES {
        if !has(of) {
            schema.retain(|key, _| !keywords.contains(&key.as_str()));
        }
    }
    let is_array = types.iter().any(|name| name == "array");
    if is_array && !schema.contains_key("items") {
        schema.insert("items".to_owned(), json!({}));
    }
    let Some(required) = schema.shift_remove("required") else { return };
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let mut kept = Vec::new();
    for name in texts(Some(&required)) {
        let known = properties(schema).is_some_and(|named| named.contains_key(&name));
        if !known && is_closed {
            continue;
        }
        if !known && let Some(named) = properties_mut(schema) {
            named.insert(name.clone(), json!({}));
        }
        kept.push(Value::String(name));
    }
    if !kept.is_empty() {
        schema.insert("required".to_owned(), distinct(&kept).into());
    }
}

/// A schema without a type that has properties is meant as that of an object, one with items as that of an array.
fn infer_type(schema: &mut Schema) {
    if ["type", "anyOf", "oneOf"].iter().any(|key| schema.contains_key(*key)) {
        return;
    }
    if let Some(types) = types_of_choices(schema) {
        schema.insert("type".to_owned(), types);
        return;
    }
    let has = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    let inferred = match () {
        () if has(&["properties", "required", "additionalProperties", "patternProperties"]) => "object",
        () if has(&["items", "prefixItems"]) => "array",
        () => return,
    };
    schema.insert("type".to_owned(), inferred.into());
}

/// The types of the values of a schema that names its values, if those are neither lists nor objects.
fn types_of_choices(schema: &Schema) -> Option<Value> {
    let one = schema.get("const").map(std::slice::from_ref);
    let choices = one.or_else(|| schema.get("enum")?.as_array().map(Vec::as_slice))?;
    let name = |choice: &Value| match choice {
        Value::Null => Some("null"),
        Value::Bool(_) => Some("boolean"),
        Value::Number(number) if number.is_f64() => Some("number"),
        Value::Number(_) => Some("integer"),
        Value::String(_) => Some("string"),
        Value::Array(_) | Value::Object(_) => None,
    };
    one_or_several(choices.iter().map(name).collect::<Option<Vec<_>>>()?)
}

/// Choices beside the type of an array are often meant as those of its items.
fn choices_of_items(schema: &mut Schema) {
    let is_choice = |value: &Value| !value.is_array() && !value.is_object() && !value.is_null();
    let choices = schema.get("enum").and_then(Value::as_array);
    if schema.get("type") != Some(&json!("array")) || !choices.is_some_and(|all| all.iter().all(is_choice)) {
        return;
    }
    let choices = schema.shift_remove("enum").unwrap_or_default();
    let items = schema.entry("items").or_insert_with(|| json!({}));
    if let Value::Object(items) = items {
        items.entry("enum").or_insert(choices);
        settle(items);
    }
}

/// Allows `null` beside the values of a schema that has types or alternatives.
pub(super) fn allow_null(schema: &mut Schema) {
    let mut types: Vec<String> = types_of(schema).map(str::to_owned).collect();
    if !types.is_empty() && !types.iter().any(|name| name == "null") {
        types.push("null".to_owned());
        schema.insert("type".to_owned(), json!(types));
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum")
        && !choices.contains(&Value::Null)
    {
        choices.push(Value::Null);
    }
    let alternatives = ["anyOf", "oneOf"].into_iter().find(|key| schema.contains_key(*key));
    if let Some(Value::Array(branches)) = alternatives.and_then(|key| schema.get_mut(key)) {
        let null = json!({"type": "null"});
        if !branches.contains(&null) {
            branches.push(null);
        }
    }
}

/// The schema as that of all arguments together.
///
/// # Errors
/// It is not that of an object.
pub(super) fn root(mut schema: Schema) -> Result<Schema, String> {
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = schema.shift_remove(keyword) else { continue };
        let read = branches.into_iter().filter_map(object).map(root);
        let (read, refused): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
        let objects: Vec<Schema> = read.into_iter().flatten().collect();
        if objects.is_empty()
            && let Some(Err(refused)) = refused.into_iter().next()
        {
            return Err(refused);
        }
        schema = folded(schema, objects);
    }
    let types: Vec<&str> = types_of(&schema).collect();
    let is_object = types.is_empty() || types.contains(&"object");
    let given = types.join("`, `");
    ensure!(is_object, "the schema of its arguments is not that of an object, but has the type `{given}`");
    let rules: Map<String, Value> = ["not", "enum", "const"]
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), schema.shift_remove(*key)?)))
        .collect();
    if !rules.is_empty() {
        describe(&mut schema, &Value::Object(rules));
    }
    schema.insert("type".to_owned(), "object".into());
    schema.entry("properties").or_insert_with(|| json!({}));
    settle(&mut schema);
    Ok(schema)
}

/// Adds a rule that has no keyword to the description, as JSON. A long one is left out.
pub(super) fn describe(schema: &mut Schema, rule: &Value) {
    let rule = rule.to_string();
    if rule.len() <= MAX_RULE_BYTES {
        add_text(schema, &rule);
    }
}

/// Adds a text to the description.
pub(super) fn add_text(schema: &mut Schema, text: &str) {
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(before) if before.ends_with(text) => return,
        Some(before) => format!("{before} {text}"),
        None => text.to_owned(),
    };
    schema.insert("description".to_owned(), description.into());
}

/// Adds names to `required`.
pub(super) fn require(schema: &mut Schema, names: Vec<String>) {
    if names.is_empty() {
        return;
    }
    let all: Vec<String> = texts(schema.get("required")).chain(names).collect();
    schema.insert("required".to_owned(), json!(all));
}

/// The properties of a schema.
pub(super) fn properties(schema: &Schema) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// The properties of a schema, which gets some if it has none.
pub(super) fn properties_mut(schema: &mut Schema) -> Option<&mut Map<String, Value>> {
    schema.entry("properties").or_insert_with(|| json!({})).as_object_mut()
}

/// The names of the types of a schema; none if any is allowed.
pub(super) fn types_of(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.get("type").into_iter().flat_map(listed_texts)
}

/// The texts in a list.
pub(super) fn texts(list: Option<&Value>) -> impl Iterator<Item = String> {
    let listed = list.and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(Value::as_str).map(str::to_owned)
}

/// The schemas of `anyOf` and its like; one alone is written by some without a list.
pub(super) fn listed(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    let one = value.filter(|value| value.is_object());
    value.and_then(Value::as_array).into_iter().flatten().chain(one)
}

/// The type or the types; `None` if any is allowed.
fn types(value: Option<&Value>) -> Option<Value> {
    one_or_several(listed_texts(value?).map(type_named).collect::<Option<Vec<_>>>()?)
}

/// The items in their order, without those that come again.
pub(super) fn once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for item in items {
        if !once.contains(&item) {
            once.push(item);
        }
    }
    once
}

/// One name as a text, several as a list.
pub(super) fn one_or_several<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<Value> {
    match &once(names)[..] {
        [] => None,
        [one] => Some(json!(one)),
        several => Some(json!(several)),
    }
}

pub(super) fn listed_texts(value: &Value) -> impl Iterator<Item = &str> {
    let several = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    value.as_str().into_iter().chain(several)
}

/// The type that a name of a programming language or of another dialect means; `None`: any.
fn type_named(name: &str) -> Option<&'static str> {
    let name = name.trim().to_ascii_lowercase();
    if let Some(known) = TYPES.iter().find(|known| **known == name) {
        return Some(known);
    }
    Some(match name.as_str() {
        "str" | "text" | "file" | "char" | "date" | "datetime" | "uuid" => "string",
        "int" | "int32" | "int64" | "long" | "short" | "byte" | "bigint" => "integer",
        "float" | "double" | "decimal" => "number",
        "bool" => "boolean",
        "dict" | "map" | "hashmap" | "record" | "struct" => "object",
        "list" | "tuple" | "set" | "arraylist" => "array",
        "none" | "nil" => "null",
        _ => return None,
    })
}

fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => serde_json::from_str(text.trim()).ok(),
        _ => None,
    }
}

fn count(value: &Value) -> Option<u64> {
    let number = number(value)?;
    let whole = || number.as_f64().filter(|count| count.fract() == 0.0 && (0.0..1e15).contains(count));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    number.as_u64().or_else(|| whole().map(|count| count as u64))
}

/// The values without those that come again.
pub(super) fn distinct(values: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    values.iter().filter(|value| seen.insert(*value)).cloned().collect()
}

/// What a value is, for people.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
