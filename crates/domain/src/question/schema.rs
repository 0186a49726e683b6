//! Checking an answer against the schema of its question, or of the result that a client wants.
//!
//! Of JSON Schema this knows what forms, buttons and the results of models need, which is also what providers enforce: `type`,
//! `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `minItems`, `maxItems`, `minLength`,
//! `maxLength`, `minimum`, `maximum`, `allOf`, `oneOf` and `anyOf` (one that matches is enough for either), and `$ref` within
//! the schema. Other keywords are descriptions: they refuse nothing.

use serde_json::{Map, Value};

use crate::storable::MAX_LEVELS;

/// How deep schemas are followed: a value has at most half of these levels, and each may be a reference.
const MAX_DEPTH: usize = 2 * MAX_LEVELS;
/// Schemas and values that are looked at: some 20 ms. A table of 30,000 cells is within it.
pub const MAX_WORK: usize = 100_000;
/// Bytes of a text that take as long as a step.
const TEXT: usize = 64;

/// An answer that does not match: the JSON Pointer of the value within the answer, what is wrong with it, and what is allowed.
pub use crate::setting::WrongSetting as Mismatch;
use crate::setting::require;

/// Checks `answer`, in at most [`MAX_WORK`] steps: options in options could take for ever otherwise.
///
/// # Errors
/// The first [`Mismatch`], also when the answer cannot be checked within the limit.
pub fn check(schema: &Value, answer: &Value) -> Result<(), Mismatch> {
    check_within(schema, answer, &mut MAX_WORK.clone())
}

/// As [`check`], in at most so many steps as are `left`.
pub fn check_within(schema: &Value, answer: &Value, left: &mut usize) -> Result<(), Mismatch> {
    let mut check = Check { root: schema, left: *left };
    let checked = check.at(schema, answer, String::new(), MAX_DEPTH);
    *left = check.left;
    let reason = format_args!("cannot be checked: with this schema it takes more than {MAX_WORK} steps");
    require(check.left != 0, "", reason)?;
    checked
}

struct Check<'s> {
    root: &'s Value,
    /// How many steps may still be made.
    left: usize,
}

impl<'s> Check<'s> {
    fn at(
        &mut self,
        schema: &'s Value,
        value: &Value,
        pointer: String,
        depth: usize,
    ) -> Result<(), Mismatch> {
        let (Value::Object(schema), Some(depth)) = (schema, depth.checked_sub(1)) else {
            return match schema {
                Value::Bool(false) => Err(Mismatch { pointer, reason: "must not be there".to_owned() }),
                _ => Ok(()),
            };
        };
        self.left = self.left.saturating_sub(work(schema, value));
        ensure!(self.left != 0, Mismatch { pointer, reason: String::new() });
        if let Some(reason) = wrong_alone(schema, value) {
            return Err(Mismatch { pointer, reason });
        }
        let referred = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        if let Some(referred) = referred.and_then(|referred| self.root.pointer(referred)) {
            self.at(referred, value, pointer.clone(), depth)?;
        }
        match value {
            Value::Object(fields) => self.fields(schema, fields, &pointer, depth)?,
            Value::Array(items) => {
                if let Some(of) = schema.get("items") {
                    for (nth, item) in items.iter().enumerate() {
                        self.at(of, item, format!("{pointer}/{nth}"), depth)?;
                    }
                }
            }
            _ => {}
        }
        for all in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.at(all, value, pointer.clone(), depth)?;
        }
        for either in ["oneOf", "anyOf"] {
            if let Some(Value::Array(options)) = schema.get(either) {
                self.options(options, value, &pointer, depth)?;
            }
        }
        Ok(())
    }

    fn options(
        &mut self,
        options: &'s [Value],
        value: &Value,
        pointer: &str,
        depth: usize,
    ) -> Result<(), Mismatch> {
        let mut meant = None;
        for option in options {
            let Err(mismatch) = self.at(option, value, pointer.to_owned(), depth) else { return Ok(()) };
            let properties = option.get("properties").and_then(Value::as_object).map_or(0, Map::len);
            self.left = self.left.saturating_sub(properties);
            if meant.is_none() && is_meant(option, value) {
                meant = Some(mismatch);
            }
        }
        let reason = format!("must match one of the {} options", options.len());
        Err(meant.unwrap_or(Mismatch { pointer: pointer.to_owned(), reason }))
    }

    fn fields(
        &mut self,
        schema: &'s Map<String, Value>,
        fields: &Map<String, Value>,
        pointer: &str,
        depth: usize,
    ) -> Result<(), Mismatch> {
        let at = |name: &str| below(pointer, name);
        if let Some(Value::Array(required)) = schema.get("required")
            && let Some(name) =
                required.iter().filter_map(Value::as_str).find(|name| !fields.contains_key(*name))
        {
            return Err(Mismatch { pointer: at(name), reason: "is missing".to_owned() });
        }
        let defined = schema.get("properties").and_then(Value::as_object);
        for (name, value) in fields {
            match (defined.and_then(|defined| defined.get(name)), schema.get("additionalProperties")) {
                (Some(of), _) => self.at(of, value, at(name), depth)?,
                (None, Some(Value::Bool(false))) => {
                    return Err(Mismatch { pointer: at(name), reason: "is not a known field".to_owned() });
                }
                (None, Some(of)) => self.at(of, value, at(name), depth)?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

/// Steps that comparing `value` with the keywords of one schema takes at most.
fn work(schema: &Map<String, Value>, value: &Value) -> usize {
    let length = |keyword: &str| schema.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
    let compared = length("enum") + usize::from(schema.contains_key("const"));
    let compared = if compared == 0 { 0 } else { compared.saturating_mul(nodes(value)) };
    let own = value.as_str().map_or(0, |text| text.len() / TEXT);
    1 + own + length("required") + compared
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(nodes).sum(),
        Value::String(text) => text.len() / TEXT,
        _ => 0,
    }
}

/// Whether `value` has the constant fields of an option, by which options of a kind differ: then its other errors are said.
fn is_meant(option: &Value, value: &Value) -> bool {
    let Some(Value::Object(properties)) = option.get("properties") else { return false };
    let mut constants =
        properties.iter().filter_map(|(name, schema)| Some((name, schema.get("const")?))).peekable();
    let is_plain = |value: &Value| !value.is_array() && !value.is_object();
    constants.peek().is_some()
        && constants.all(|(name, constant)| is_plain(constant) && value.get(name) == Some(constant))
}

/// What is wrong with the value itself, without the values in it.
fn wrong_alone(schema: &Map<String, Value>, value: &Value) -> Option<String> {
    let is_of = |name: &Value| name.as_str().is_none_or(|name| is_type(name, value));
    match schema.get("type") {
        Some(Value::Array(types)) if !types.iter().any(is_of) => {
            return Some(format!("must be one of the types {}", Value::Array(types.clone())));
        }
        Some(name @ Value::String(_)) if !is_of(name) => return Some(format!("must be of type {name}")),
        _ => {}
    }
    if let Some(constant) = schema.get("const").filter(|constant| *constant != value) {
        return Some(format!("must be {constant}"));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        return Some(format!("must be one of {}", Value::Array(allowed.clone())));
    }
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let outside = |size: f64, least: &str, most: &str, what: &str| match (number(least), number(most)) {
        (Some(least), _) if size < least => Some(format!("must be at least {least}{what}")),
        (_, Some(most)) if size > most => Some(format!("must be at most {most}{what}")),
        _ => None,
    };
    let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    match value {
        Value::Number(of) => outside(of.as_f64()?, "minimum", "maximum", ""),
        Value::String(text) => {
            outside(count(text.chars().count()), "minLength", "maxLength", " characters long")
        }
        Value::Array(items) => outside(count(items.len()), "minItems", "maxItems", " items long"),
        _ => None,
    }
}

/// The JSON Pointer of a field of the object at `pointer`.
pub fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Whether a value has the type that a schema names.
pub fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(schema: &Value, answer: &Value) -> (String, String) {
        let Mismatch { pointer, reason } = check(schema, answer).unwrap_err();
        (pointer, reason)
    }

    #[test]
    fn answer_must_match_the_type_and_the_choices() {
        let yes_or_no = json!({"type": "boolean", "title": "Delete?"});
        assert_eq!(check(&yes_or_no, &json!(true)), Ok(()));
        assert_eq!(wrong(&yes_or_no, &json!("yes")).1, "must be of type \"boolean\"");
        let choice = json!({"enum": ["a", "b"]});
        assert_eq!(check(&choice, &json!("b")), Ok(()));
        assert_eq!(wrong(&choice, &json!("c")).1, "must be one of [\"a\",\"b\"]");
        let amount = json!({"type": ["integer", "null"], "minimum": 1, "maximum": 10});
        assert_eq!(check(&amount, &Value::Null), Ok(()));
        assert_eq!(wrong(&amount, &json!(11)).1, "must be at most 10");
        assert!(wrong(&amount, &json!(1.5)).1.starts_with("must be one of the types"));
        assert_eq!(wrong(&json!({"minLength": 2}), &json!("ä")).1, "must be at least 2 characters long");
        assert_eq!(wrong(&json!(false), &json!(1)).1, "must not be there");
    }

    #[test]
    fn mismatch_inside_of_an_answer_has_its_pointer() {
        let form = json!({
            "type": "object", "required": ["decision"], "additionalProperties": false,
            "properties": {
                "decision": {"oneOf": [{"const": "approve"}, {"const": "reject"}]},
                "parts": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            },
        });
        assert_eq!(check(&form, &json!({"decision": "approve", "parts": ["a"]})), Ok(()));
        let cases = [
            (json!({}), "/decision"),
            (json!({"decision": "edit"}), "/decision"),
            (json!({"decision": "approve", "parts": ["a", 1]}), "/parts/1"),
            (json!({"decision": "approve", "parts": ["a", "b", "c"]}), "/parts"),
            (json!({"decision": "approve", "a/b": 1}), "/a~1b"),
            (json!([]), ""),
        ];
        for (answer, pointer) in cases {
            assert_eq!(wrong(&form, &answer).0, pointer, "{answer}");
        }
    }

    #[test]
    fn schema_that_refers_to_itself_many_times_ends() {
        let mut schema = json!({"type": "string"});
        let mut answer = json!(1);
        for _ in 0..2 * MAX_DEPTH {
            schema = json!({"items": schema});
            answer = json!([answer]);
        }
        assert_eq!(check(&schema, &answer), Ok(()), "what is too deep is not checked");
    }

    /// Options in options: the answer fails at the innermost only.
    fn nested(levels: usize) -> Value {
        let mut schema = json!({"properties": {"a": {"const": 1}}, "required": ["b"]});
        for _ in 0..levels {
            schema = json!({"properties": {"a": {"const": 1}}, "anyOf": [schema]});
        }
        schema
    }

    #[test]
    fn references_and_parts_are_followed() {
        let schema = json!({
            "$defs": {"id": {"type": "string"}, "tree": {"properties": {"left": {"$ref": "#/$defs/tree"}, "id": {"$ref": "#/$defs/id"}}}},
            "allOf": [{"$ref": "#/$defs/tree"}, {"required": ["id"]}],
        });
        assert_eq!(check(&schema, &json!({"id": "a", "left": {"left": {"id": "b"}}})), Ok(()));
        assert_eq!(wrong(&schema, &json!({"id": "a", "left": {"left": {"id": 1}}})).0, "/left/left/id");
        assert_eq!(wrong(&schema, &json!({})).0, "/id");
        assert_eq!(check(&json!({"$ref": "#"}), &json!(1)), Ok(()));
        assert_eq!(check(&json!({"$ref": "#/nowhere"}), &json!(1)), Ok(()));
        let (mut tree, mut wrong_below) = (json!({"id": "a"}), json!({"id": 1}));
        for _ in 0..MAX_LEVELS - 2 {
            (tree, wrong_below) = (json!({"left": tree}), json!({"left": wrong_below}));
        }
        let tree_schema = &schema["allOf"][0];
        let of_root = json!({"$defs": schema["$defs"], "$ref": tree_schema["$ref"]});
        assert_eq!(check(&of_root, &tree), Ok(()));
        assert!(check(&of_root, &wrong_below).is_err(), "all levels that a value may have are checked");
        let itself = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "string"}], "minimum": 5});
        assert!(wrong(&itself, &json!(1)).1.starts_with("must be at least 5"));
        let itself = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "not": true, "allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert!(wrong(&itself, &json!(1)).1.starts_with("cannot be checked: "));
    }

    #[test]
    fn options_in_options_are_tried_once_each() {
        let schema = nested(30);
        assert_eq!(wrong(&schema, &json!({"a": 1})).0, "/b");
        let (_, reason) = wrong(&json!({"enum": vec![0; 1000]}), &json!(vec!["x"; 1000]));
        assert!(reason.starts_with("cannot be checked: "), "{reason}");
    }

    #[test]
    fn large_tables_are_within_the_limit() {
        let schema = json!({"items": {"items": {"type": "number"}}});
        assert_eq!(check(&schema, &json!(vec![vec![1.5; 30]; 1000])), Ok(()));
    }
}
