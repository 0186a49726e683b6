//! Arguments of tools whose definitions the model was not sent: an example of them, and what is wrong with those of a call.

use std::collections::BTreeMap;

use houston_domain::question::schema::is_type;
use serde_json::{Map, Number, Value, json};

/// Levels of objects within an example.
const DEPTH: usize = 3;
/// Arguments that say how many items a result has. A number that is too high is lowered; of any other argument it may be
/// what matters.
const COUNTS: [&str; 8] =
    ["limit", "max_results", "maxResults", "page_size", "pageSize", "per_page", "num_results", "numResults"];

/// Arguments that fit a schema: the required ones.
pub(crate) fn example(schema: &Value) -> Value {
    object(schema, DEPTH)
}

fn object(schema: &Value, depth: usize) -> Value {
    let required = names(schema, "required");
    let fields = required.filter_map(|name| {
        let property = schema.get("properties")?.get(name)?;
        Some((name.to_owned(), value(name, property, depth)))
    });
    Value::Object(fields.collect())
}

fn value(name: &str, schema: &Value, depth: usize) -> Value {
    let given = ["const", "default", "example"].iter().find_map(|key| schema.get(key));
    let listed = ["enum", "examples"].iter().find_map(|key| schema.get(key)?.get(0));
    if let Some(value) = given.or(listed) {
        return value.clone();
    }
    match types(schema).first() {
        Some(&"integer" | &"number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some(&"boolean") => json!(true),
        Some(&"array") => match schema.get("items").filter(|_| depth > 0) {
            Some(items) => json!([value(name, items, depth - 1)]),
            None => json!([]),
        },
        Some(&"object") if depth > 0 => object(schema, depth - 1),
        Some(&"object") => json!({}),
        _ => {
            let first = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.get(0));
            match first.filter(|_| depth > 0) {
                Some(first) => value(name, first, depth - 1),
                None => json!(format!("<{name}>")),
            }
        }
    }
}

/// What is wrong with the arguments of a call: one that is missing, one that the schema does not have, one of another type,
/// or none of the listed values. Deeper levels are left to the tool. Worded for the model.
pub(crate) fn complaint(schema: &Value, input: &Value) -> Option<String> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let given = input.as_object()?;
    if let Some(missing) = names(schema, "required").find(|name| !given.contains_key(*name)) {
        return Some(format!("`{missing}` is missing"));
    }
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in given {
        let Some(property) = properties.get(name) else {
            if is_closed {
                let allowed = properties.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                return Some(format!("there is no argument `{name}`; there are: {allowed}"));
            }
            continue;
        };
        let types = types(property);
        if !types.is_empty() && !types.iter().any(|wanted| is_type(wanted, value)) {
            return Some(format!("`{name}` must be of type {}", types.join(" or ")));
        }
        if let Some(listed) =
            property.get("enum").and_then(Value::as_array).filter(|listed| !listed.contains(value))
        {
            let listed = listed.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
            return Some(format!("`{name}` must be one of {listed}"));
        }
    }
    None
}

/// The most that the arguments which count items may be, by JSON pointer.
pub(crate) fn count_limits(schema: &Value) -> BTreeMap<String, Number> {
    let most = |name: &&str| match schema.get("properties")?.get(name)?.get("maximum")? {
        Value::Number(most) => Some((format!("/{name}"), most.clone())),
        _ => None,
    };
    COUNTS.iter().filter_map(most).collect()
}

/// The types that a schema allows; none if it says nothing.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn names<'s>(schema: &'s Value, key: &str) -> impl Iterator<Item = &'s str> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"enum": ["fast", "slow"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50},
                "size": {"type": ["integer", "null"], "maximum": 9},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "number"}}, "required": ["at"]}},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["path", "mode", "parts"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn example_has_the_required_arguments() {
        assert_eq!(example(&schema()), json!({"path": "<path>", "mode": "fast", "parts": [{"at": 1}]}));
        assert_eq!(example(&json!({"type": "object"})), json!({}));
        assert_eq!(example(&json!({"required": ["gone"]})), json!({}));
    }

    #[test]
    fn complaints_say_which_argument_and_what_is_allowed() {
        let fits =
            json!({"path": "a", "mode": "slow", "parts": [], "limit": 3.0, "size": null, "note": null});
        assert_eq!(complaint(&schema(), &fits), None);
        for (name, value, expected) in [
            ("path", json!(1), "`path` must be of type string"),
            ("mode", json!("medium"), "`mode` must be one of \"fast\", \"slow\""),
            ("limit", json!(1.5), "`limit` must be of type integer"),
            ("size", json!("9"), "`size` must be of type integer or null"),
            (
                "paht",
                json!("a"),
                "there is no argument `paht`; there are: path, mode, limit, size, parts, note",
            ),
        ] {
            let mut input = fits.clone();
            input[name] = value;
            assert_eq!(complaint(&schema(), &input).as_deref(), Some(expected));
        }
        assert_eq!(complaint(&schema(), &json!({})).as_deref(), Some("`path` is missing"));
        let open = json!({"properties": {}});
        assert_eq!(complaint(&open, &json!({"any": 1})), None);
    }

    #[test]
    fn only_counts_of_items_have_limits() {
        assert_eq!(count_limits(&schema()), [("/limit".to_owned(), Number::from(50))].into());
    }
}
