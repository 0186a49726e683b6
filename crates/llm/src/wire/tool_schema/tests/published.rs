//! What providers publish about the schemas of tools, as checks of what is sent to them. Written apart from the rules that it is
//! sent by.

use serde_json::{Map, Value};

use crate::protocol::Wire;

/// Why a provider would refuse the schema of a tool's arguments.
pub(super) fn refusal(wire: Wire, schema: &Value) -> Option<String> {
    let check = match wire {
        Wire::Anthropic => anthropic,
        Wire::OpenAiChat | Wire::OpenAiResponses => openai,
        Wire::Gemini => gemini,
        Wire::Cohere => cohere,
        Wire::Ollama => ollama,
    };
    root(schema).or_else(|| every(schema, true, &|fields, is_root| check(fields, is_root)))
}

/// All take an object with named properties, without alternatives.
fn root(schema: &Value) -> Option<String> {
    let Some(fields) = schema.as_object() else { return Some("is no object".to_owned()) };
    if fields.get("type").and_then(Value::as_str) != Some("object") {
        return Some("its type is not `object`".to_owned());
    }
    if !fields.get("properties").is_some_and(Value::is_object) {
        return Some("it has no properties".to_owned());
    }
    let banned = ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"];
    banned.iter().find(|key| fields.contains_key(**key)).map(|key| format!("`{key}` at the root"))
}

/// The first complaint about any schema in `schema`, with the keyword that it is under.
fn every(
    schema: &Value,
    is_root: bool,
    check: &impl Fn(&Map<String, Value>, bool) -> Option<String>,
) -> Option<String> {
    let fields = match schema {
        Value::Object(fields) => fields,
        Value::Bool(_) => return None,
        other => return Some(format!("{other} is no schema")),
    };
    let wrong = well_formed(fields).or_else(|| check(fields, is_root));
    if wrong.is_some() {
        return wrong;
    }
    for (keyword, value) in fields {
        let inner: Vec<&Value> = match (keyword.as_str(), value) {
            ("properties" | "patternProperties" | "$defs", Value::Object(named)) => named.values().collect(),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(listed)) => listed.iter().collect(),
            ("items" | "additionalProperties" | "not" | "contains" | "propertyNames", _) => vec![value],
            _ => continue,
        };
        let wrong = inner.into_iter().find_map(|inner| every(inner, false, check));
        if wrong.is_some() {
            return wrong.map(|wrong| format!("{keyword}: {wrong}"));
        }
    }
    None
}

/// The metaschema of draft 2020-12: <https://json-schema.org/draft/2020-12/schema>.
fn well_formed(fields: &Map<String, Value>) -> Option<String> {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_unique = |list: &Vec<Value>| (1..list.len()).all(|nth| !list[..nth].contains(&list[nth]));
    for (keyword, value) in fields {
        let is_right = match keyword.as_str() {
            "type" => match value {
                Value::Array(several) => {
                    !several.is_empty() && several.iter().all(is_type) && is_unique(several)
                }
                one => is_type(one),
            },
            "properties" | "patternProperties" | "$defs" => value.is_object(),
            "required" => {
                value.as_array().is_some_and(|list| list.iter().all(Value::is_string) && is_unique(list))
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array().is_some_and(|list| !list.is_empty())
            }
            "enum" => value.as_array().is_some_and(|list| !list.is_empty() && is_unique(list)),
            "examples" => value.is_array(),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
            "multipleOf" => value.as_f64() > Some(0.0),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                value.is_u64()
            }
            "uniqueItems" => value.is_boolean(),
            "title" | "description" | "format" | "pattern" | "$ref" => value.is_string(),
            "items" | "additionalProperties" | "not" | "contains" | "propertyNames" => {
                value.is_object() || value.is_boolean()
            }
            "default" | "const" | "contentEncoding" | "contentMediaType" => true,
            _ => return Some(format!("`{keyword}` is no keyword of draft 2020-12")),
        };
        if !is_right {
            return Some(format!("`{keyword}` is {value}"));
        }
    }
    None
}

fn names(fields: &Map<String, Value>) -> impl Iterator<Item = &String> {
    fields.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys)
}

fn of_type(fields: &Map<String, Value>, name: &str) -> bool {
    match fields.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    }
}

fn array_without_items(fields: &Map<String, Value>) -> Option<String> {
    (of_type(fields, "array") && !fields.contains_key("items"))
        .then(|| "array schema missing items".to_owned())
}

fn other_keyword(fields: &Map<String, Value>, allowed: &[&str]) -> Option<String> {
    fields.keys().find(|key| !allowed.contains(&key.as_str())).map(|key| format!("`{key}` is not supported"))
}

/// "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
fn anthropic(fields: &Map<String, Value>, _: bool) -> Option<String> {
    let pattern = regex_lite::Regex::new("^[a-zA-Z0-9_.-]{1,64}$").unwrap();
    names(fields).find(|name| !pattern.is_match(name)).map(|name| format!("the property key `{name}`"))
}

/// "array schema missing items"; "'…' is not a 'regex'"; "regex lookaround is not supported".
fn openai(fields: &Map<String, Value>, _: bool) -> Option<String> {
    let patterns = fields.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let mut patterns = patterns.map(String::as_str).chain(fields.get("pattern").and_then(Value::as_str));
    let foreign = ["(?=", "(?!", "(?<", "\\p{", "\\P{", "\\u{", "\\z"];
    let wrong = patterns.find(|pattern| foreign.iter().any(|part| pattern.contains(part)));
    wrong.map(|pattern| format!("`{pattern}` is not a regex")).or_else(|| array_without_items(fields))
}

/// "only the following properties are supported: …"; "items: missing field"; "required[0]: property is not defined"; "Parameter
/// names must start with a letter or an underscore …".
fn gemini(fields: &Map<String, Value>, _: bool) -> Option<String> {
    let supported = [
        "$id",
        "$defs",
        "$ref",
        "$anchor",
        "type",
        "format",
        "title",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "oneOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
    ];
    let pattern = regex_lite::Regex::new("^[a-zA-Z_][a-zA-Z0-9_]{0,63}$").unwrap();
    let choices = fields.get("enum").and_then(Value::as_array).into_iter().flatten();
    let mut required =
        fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let undefined = required.find(|name| !names(fields).any(|known| known == name));
    other_keyword(fields, &supported)
        .or_else(|| {
            names(fields).find(|name| !pattern.is_match(name)).map(|name| format!("the parameter `{name}`"))
        })
        .or_else(|| array_without_items(fields))
        .or_else(|| undefined.map(|name| format!("required: `{name}` is not defined")))
        .or_else(|| {
            let mut choices = choices.filter(|choice| !choice.is_string() && !choice.is_number());
            choices.next().map(|choice| format!("enum has {choice}"))
        })
        .or_else(|| {
            let is_object = of_type(fields, "object") || !fields.contains_key("type");
            (fields.contains_key("properties") && !is_object).then(|| "properties of no object".to_owned())
        })
}

/// "Below is a list of some unsupported features".
fn cohere(fields: &Map<String, Value>, _: bool) -> Option<String> {
    let unsupported = [
        "allOf",
        "oneOf",
        "not",
        "maximum",
        "minimum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "minItems",
        "maxItems",
        "maxLength",
        "minLength",
        "uniqueItems",
        "additionalProperties",
        "patternProperties",
    ];
    let formats = ["date-time", "uuid", "date", "time"];
    let format = fields.get("format").and_then(Value::as_str).filter(|format| !formats.contains(format));
    let found = unsupported.iter().find(|key| fields.contains_key(**key)).map(|key| format!("`{key}`"));
    found.or_else(|| format.map(|format| format!("the format `{format}`"))).or_else(|| {
        let pattern = fields.get("pattern").and_then(Value::as_str)?;
        ["^", "$", "?=", "?!"]
            .iter()
            .any(|part| pattern.contains(part))
            .then(|| format!("the pattern `{pattern}`"))
    })
}

/// Ollama decodes a tool with Go structs: `Required []string`, `Type string` of the parameters, `Type PropertyType` (a text or a
/// list of texts), `Enum []any`, `AnyOf []ToolProperty` and `Properties map[string]ToolProperty` of each property. Other keys are
/// lost.
fn ollama(fields: &Map<String, Value>, is_root: bool) -> Option<String> {
    let read = ["type", "items", "required", "properties", "description", "enum", "anyOf"];
    let properties = fields.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let branches = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let not_struct = properties.chain(branches).find(|inner| !inner.is_object());
    let lost = other_keyword(fields, &read);
    let at_root = (is_root && !fields.get("type").is_some_and(Value::is_string)).then(|| "type".to_owned());
    lost.or(at_root).or_else(|| not_struct.map(|inner| format!("cannot unmarshal {inner} into ToolProperty")))
}
