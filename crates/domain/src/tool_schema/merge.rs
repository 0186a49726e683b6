//! Two schemas as one: what matches both, or either.

use serde_json::{Map, Value, json};

use super::form::{self, Schema, add_text, properties, properties_mut, require, texts};

/// The most alternatives that are described.
const MAX_DESCRIBED: usize = 12;

/// A schema for what matches both; where that cannot be said, for more. Titles and descriptions are those of `first`.
pub(super) fn all(mut first: Schema, second: Schema) -> Schema {
    if first.is_empty() {
        return second;
    }
    let closed =
        [&first, &second].iter().any(|one| one.get("additionalProperties") == Some(&Value::Bool(false)));
    for (key, value) in second {
        let Some(before) = first.get(&key) else {
            first.insert(key, value);
            continue;
        };
        let both = match key.as_str() {
            "properties" => both_properties(before, &value),
            "required" => json!(form::distinct(&[list(before), list(&value)].concat())),
            "type" => both_types(before, &value),
            "enum" => {
                let (choices, others) = (list(before), list(&value));
                let common: Vec<Value> = choices.into_iter().filter(|one| others.contains(one)).collect();
                if common.is_empty() { continue } else { Value::Array(common) }
            }
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                if value.as_f64() > before.as_f64() { value } else { continue }
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                if value.as_f64() < before.as_f64() { value } else { continue }
            }
            "items" => match (before, &value) {
                (Value::Object(first), Value::Object(second)) => {
                    Value::Object(all(first.clone(), second.clone()))
                }
                _ => continue,
            },
            _ => continue,
        };
        first.insert(key, both);
    }
    if closed {
        // Their properties are united, so that each knows those of the other.
        first.insert("additionalProperties".to_owned(), false.into());
    }
    form::settle(&mut first);
    with_own_properties(first)
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn both_properties(first: &Value, second: &Value) -> Value {
    let mut named = first.as_object().cloned().unwrap_or_default();
    for (name, value) in second.as_object().into_iter().flatten() {
        let both = match (named.get(name), value) {
            (Some(Value::Object(first)), Value::Object(second)) => {
                Value::Object(all(first.clone(), second.clone()))
            }
            _ => value.clone(),
        };
        named.insert(name.clone(), both);
    }
    Value::Object(named)
}

/// The types that both allow. If there are none, the first are kept: a value that cannot be is of no use to a model.
fn both_types(first: &Value, second: &Value) -> Value {
    let of = |value: &Value| -> Vec<String> {
        value.as_str().map(str::to_owned).into_iter().chain(texts(Some(value))).collect()
    };
    let (firsts, seconds) = (of(first), of(second));
    let mut common: Vec<String> = Vec::new();
    for (one, other) in firsts.iter().flat_map(|one| seconds.iter().map(move |other| (one, other))) {
        let both = match (one.as_str(), other.as_str()) {
            (one, other) if one == other => one,
            ("integer", "number") | ("number", "integer") => "integer",
            _ => continue,
        };
        if !common.iter().any(|known| known == both) {
            common.push(both.to_owned());
        }
    }
    match common.as_slice() {
        [] => first.clone(),
        [one] => json!(one),
        several => json!(several),
    }
}

/// A schema for what matches `schema` and one of `branches`.
pub(super) fn alternatives(schema: Schema, keyword: &str, branches: Vec<Schema>) -> Schema {
    let mut distinct: Vec<Schema> = Vec::new();
    for branch in branches.into_iter().filter(|branch| *branch != form::never()) {
        let nested = if branch.len() == 1 { branch.get("anyOf").map(list) } else { None };
        let nested = nested.map(|nested| nested.into_iter().filter_map(object).collect());
        for branch in nested.unwrap_or_else(|| vec![branch]) {
            if !distinct.contains(&branch) {
                distinct.push(branch);
            }
        }
    }
    match distinct.as_slice() {
        [] => schema,
        [one] => all(schema, one.clone()),
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
pub(super) fn folded(mut schema: Schema, branches: Vec<Schema>) -> Schema {
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
        named.into_iter().map(|(name, values)| (name.clone(), Value::Object(any(&values)))).collect();
    let required_by =
        |branch: &Schema, name: &String| texts(branch.get("required")).any(|other| other == *name);
    let required: Vec<String> = texts(first.get("required"))
        .filter(|name| others.iter().all(|other| required_by(other, name)))
        .collect();
    let text = described(&schema, &branches, &required);
    let is_closed =
        branches.iter().all(|branch| branch.get("additionalProperties") == Some(&Value::Bool(false)));
    if let Some(properties) = properties_mut(&mut schema) {
        *properties = both_properties(&Value::Object(properties.clone()), &Value::Object(united))
            .as_object()
            .cloned()
            .unwrap_or_default();
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
pub(super) fn add_properties(schema: &mut Schema, other: &Schema) {
    for (name, value) in properties(other).into_iter().flatten() {
        if let Some(named) = properties_mut(schema) {
            named.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// A schema for what matches one of several.
fn any(schemas: &[&Schema]) -> Schema {
    let mut distinct: Vec<&Schema> = Vec::new();
    for schema in schemas.iter().filter(|schema| !schema.is_empty()) {
        if !distinct.contains(schema) {
            distinct.push(schema);
        }
    }
    match distinct.as_slice() {
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
    let needed: Vec<String> = texts(schema.get("required")).chain(required.iter().cloned()).collect();
    let mut sets: Vec<String> = Vec::new();
    for branch in branches {
        let fixed = |name: &String| properties(branch)?.get(name)?.get("const").cloned();
        let names = texts(branch.get("required")).filter_map(|name| match fixed(&name) {
            Some(value) => Some(format!("`{name}` = {value}")),
            None if needed.contains(&name) => None,
            None => Some(format!("`{name}`")),
        });
        let set = names.collect::<Vec<_>>().join(" with ");
        if !set.is_empty() && !sets.contains(&set) {
            sets.push(set);
        }
    }
    if sets.len() < 2 || sets.len() > MAX_DESCRIBED {
        return String::new();
    }
    format!("Give one of: {}.", sets.join("; or "))
}
