//! Validates a JSON value against a JSON Schema. Supports the subset of JSON Schema that answer schemas are written
//! in, which is also what providers enforce; a crate for the full standard would add fifty dependencies.
//!
//! Supported: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `minItems`,
//! `maxItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `anyOf`, `oneOf` (as `anyOf`), `allOf`, and `$ref`
//! into `$defs` or `definitions`. Unsupported keywords are ignored.

use std::fmt;

use serde_json::{Map, Value};

/// How many `$ref`s and combinators may be followed without descending into the value.
const DEEPEST: usize = 64;

/// Where and how a value violates its schema, worded for the model that has to correct it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Path as in `.items[2].name`; empty for the whole value.
    path: String,
    what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the answer" } else { &self.path };
        write!(f, "{path}: {}", self.what)
    }
}

/// Validates `value` against `schema`.
///
/// # Errors
/// The first [`Mismatch`] found.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), Mismatch> {
    Check { root: schema }.value(schema, value, "", 0)
}

struct Check<'s> {
    root: &'s Value,
}

impl Check<'_> {
    fn value(&self, schema: &Value, value: &Value, path: &str, depth: usize) -> Result<(), Mismatch> {
        let refuse = |what: String| Err(Mismatch { path: path.to_owned(), what });
        let Value::Object(rules) = schema else {
            return if *schema == Value::Bool(false) { refuse("must be absent".to_owned()) } else { Ok(()) };
        };
        if depth > DEEPEST {
            return refuse("the schema refers to itself without end".to_owned());
        }
        if let Some(target) = rules.get("$ref").and_then(Value::as_str) {
            match target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => self.value(target, value, path, depth + 1)?,
                None => return refuse(format!("the schema refers to {target}, which it does not have")),
            }
        }
        if let Some(types) = rules.get("type")
            && !listed(types).any(|name| has_type(value, name))
        {
            let types: Vec<&str> = listed(types).collect();
            return refuse(format!("must be {}, but is {}", types.join(" or "), type_of(value)));
        }
        if let Some(Value::Array(allowed)) = rules.get("enum")
            && !allowed.contains(value)
        {
            return refuse(format!("must be one of {}", Value::Array(allowed.clone())));
        }
        if let Some(constant) = rules.get("const").filter(|constant| *constant != value) {
            return refuse(format!("must be {constant}"));
        }
        if let Some(what) = out_of_bounds(rules, value) {
            return refuse(what);
        }
        self.combined(rules, value, path, depth)?;
        match value {
            Value::Object(fields) => self.object(rules, fields, path),
            Value::Array(items) => self.array(rules, items, path),
            _ => Ok(()),
        }
    }

    fn combined(
        &self,
        rules: &Map<String, Value>,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<(), Mismatch> {
        if let Some(Value::Array(all)) = rules.get("allOf") {
            all.iter().try_for_each(|schema| self.value(schema, value, path, depth + 1))?;
        }
        for name in ["anyOf", "oneOf"] {
            let Some(Value::Array(any)) = rules.get(name) else { continue };
            let mut mismatches = Vec::new();
            for schema in any {
                match self.value(schema, value, path, depth + 1) {
                    Ok(()) => break,
                    Err(mismatch) => mismatches.push(mismatch.to_string()),
                }
            }
            if mismatches.len() == any.len() {
                let what =
                    format!("matches none of the {} alternatives: {}", any.len(), mismatches.join("; "));
                return Err(Mismatch { path: path.to_owned(), what });
            }
        }
        Ok(())
    }

    fn object(
        &self,
        rules: &Map<String, Value>,
        fields: &Map<String, Value>,
        path: &str,
    ) -> Result<(), Mismatch> {
        let empty = Map::new();
        let properties = rules.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                let what = format!("lacks `{name}`");
                return Err(Mismatch { path: path.to_owned(), what });
            }
        }
        for (name, value) in fields {
            let path = format!("{path}.{name}");
            match (properties.get(name), rules.get("additionalProperties")) {
                (Some(schema), _) => self.value(schema, value, &path, 0)?,
                (None, Some(Value::Bool(false))) => {
                    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
                    let what = format!("is not allowed; allowed are: {}", names.join(", "));
                    return Err(Mismatch { path, what });
                }
                (None, Some(schema)) => self.value(schema, value, &path, 0)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn array(&self, rules: &Map<String, Value>, items: &[Value], path: &str) -> Result<(), Mismatch> {
        let Some(schema) = rules.get("items") else { return Ok(()) };
        let mut items = items.iter().enumerate();
        items.try_for_each(|(at, item)| self.value(schema, item, &format!("{path}[{at}]"), 0))
    }
}

/// The `type` keyword: a single name or a list of names.
fn listed(types: &Value) -> impl Iterator<Item = &str> {
    let many = types.as_array().into_iter().flatten().filter_map(Value::as_str);
    types.as_str().into_iter().chain(many)
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        name => type_of(value) == name,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The violated bound of a size or number.
fn out_of_bounds(rules: &Map<String, Value>, value: &Value) -> Option<String> {
    let (size, least, most, of) = match value {
        Value::Number(number) => (number.as_f64()?, "minimum", "maximum", ""),
        Value::String(text) => (count(text.chars().count()), "minLength", "maxLength", " characters"),
        Value::Array(items) => (count(items.len()), "minItems", "maxItems", " items"),
        _ => return None,
    };
    let bound = |name: &str| rules.get(name).and_then(Value::as_f64);
    let too_little =
        bound(least).filter(|least| size < *least).map(|least| format!("must be at least {least}{of}"));
    let too_much =
        || bound(most).filter(|most| size > *most).map(|most| format!("must be at most {most}{of}"));
    too_little.or_else(too_much)
}

fn count(size: usize) -> f64 {
    u32::try_from(size).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(schema: &Value, value: &Value) -> String {
        check(schema, value).map_or_else(|mismatch| mismatch.to_string(), |()| "fits".to_owned())
    }

    #[test]
    fn schema_violations_name_path_and_rule() {
        let person = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 5},
                "age": {"type": ["integer", "null"], "minimum": 0},
                "mood": {"enum": ["good", "bad"]},
                "kind": {"const": "person"},
                "friends": {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}
            },
            "required": ["name", "age"],
            "additionalProperties": false
        });
        for (value, wanted) in [
            (json!({"name": "Ann", "age": 30, "mood": "good", "kind": "person"}), "fits"),
            (json!({"name": "Ann", "age": null}), "fits"),
            (json!({"name": "Ann", "age": 3.0}), "fits"),
            (json!([]), "the answer: must be object, but is array"),
            (json!({"name": "Ann"}), "the answer: lacks `age`"),
            (json!({"name": 3, "age": 1}), ".name: must be string, but is number"),
            (json!({"name": "", "age": 1}), ".name: must be at least 1 characters"),
            (json!({"name": "Annabel", "age": 1}), ".name: must be at most 5 characters"),
            (json!({"name": "Ann", "age": 1.5}), ".age: must be integer or null, but is number"),
            (json!({"name": "Ann", "age": -1}), ".age: must be at least 0"),
            (json!({"name": "Ann", "age": 1, "mood": "so"}), r#".mood: must be one of ["good","bad"]"#),
            (json!({"name": "Ann", "age": 1, "kind": "cat"}), r#".kind: must be "person""#),
            (
                json!({"name": "Ann", "age": 1, "eyes": 2}),
                ".eyes: is not allowed; allowed are: name, age, mood, kind, friends",
            ),
            (json!({"name": "Ann", "age": 1, "friends": [{"name": "Bo"}]}), ".friends[0]: lacks `age`"),
            (
                json!({"name": "Ann", "age": 1, "friends": [{"name": "Bo", "age": 1}, {"name": "Cy", "age": 1}]}),
                ".friends: must be at most 1 items",
            ),
        ] {
            assert_eq!(result(&person, &value), wanted, "{value}");
        }
    }

    #[test]
    fn schema_references_and_alternatives_are_followed() {
        let schema = json!({
            "$defs": {"id": {"type": "string"}},
            "anyOf": [{"$ref": "#/$defs/id"}, {"allOf": [{"type": "number"}, {"minimum": 3}]}]
        });
        assert_eq!(result(&schema, &json!("a")), "fits");
        assert_eq!(result(&schema, &json!(3)), "fits");
        assert_eq!(
            result(&schema, &json!(2)),
            "the answer: matches none of the 2 alternatives: the answer: must be string, but is number; the answer: must be at least 3"
        );
        assert!(result(&json!({"$ref": "#"}), &json!(1)).contains("refers to itself"));
        assert!(result(&json!({"$ref": "#/nowhere"}), &json!(1)).contains("which it does not have"));
        let names = json!({"additionalProperties": {"type": "number"}, "properties": {"no": false}});
        assert_eq!(result(&names, &json!({"a": 1})), "fits");
        assert_eq!(result(&names, &json!({"a": "1"})), ".a: must be number, but is string");
        assert_eq!(result(&names, &json!({"no": 1})), ".no: must be absent");
        assert_eq!(result(&json!({"pattern": "x"}), &json!("y")), "fits");
    }
}
