//! Checks of the arguments that a model chose, and how their values are written.

use serde_json::{Map, Value};

use super::{Body, Endpoint, Location, Parameter};
use crate::error::Failure;

/// Checks that arguments are complete and no others, and their types and enumerated values. What is deeper inside a
/// value is left to the server.
pub(super) fn check(endpoint: &Endpoint, arguments: &Map<String, Value>) -> Result<(), Failure> {
    let whole = matches!(endpoint.body, Body::Whole { .. }).then_some("body");
    let names = || endpoint.parameters.iter().map(|parameter| parameter.argument.as_str()).chain(whole);
    if let Some(unknown) = arguments.keys().find(|name| !names().any(|other| other == name.as_str())) {
        let allowed: Vec<String> = names().map(|name| format!("`{name}`")).collect();
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        return Err(format!("there is no argument `{unknown}`; allowed are: {allowed}").into());
    }
    for parameter in &endpoint.parameters {
        one(&parameter.argument, parameter.is_required, &parameter.schema, arguments)?;
    }
    match &endpoint.body {
        Body::Whole { schema, is_required } => one("body", *is_required, schema, arguments),
        Body::Fields => Ok(()),
    }
}

fn one(name: &str, is_required: bool, schema: &Value, arguments: &Map<String, Value>) -> Result<(), Failure> {
    let Some(value) = given(arguments, name, schema) else {
        return if is_required { Err(missing(name)) } else { Ok(()) };
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_null = value.is_null() && schema["nullable"] == Value::Bool(true);
    if !types.is_empty() && !is_null && !types.iter().any(|name| is_of_type(value, name)) {
        return Err(format!("the argument `{name}` must be of type {}", types.join(" or ")).into());
    }
    match schema["enum"].as_array() {
        Some(allowed) if !allowed.contains(value) => {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            Err(format!("the argument `{name}` must be one of {}", allowed.join(", ")).into())
        }
        _ => Ok(()),
    }
}

pub(super) fn missing(name: &str) -> Failure {
    format!("the argument `{name}` is missing").into()
}

/// The value of an argument. Models write `null` for what they leave out; where the schema allows it, it is a value.
pub(super) fn given<'a>(arguments: &'a Map<String, Value>, name: &str, schema: &Value) -> Option<&'a Value> {
    let allows_null = || {
        let kind = &schema["type"];
        schema["nullable"] == Value::Bool(true)
            || kind == "null"
            || kind.as_array().is_some_and(|types| types.iter().any(|one| one == "null"))
    };
    arguments.get(name).filter(|value| !value.is_null() || allows_null())
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// A string, number or boolean as it is written in a path, a query or a header.
pub(super) fn text(parameter: &Parameter, value: &Value) -> Result<String, Failure> {
    let wrong = |reason: &str| Err(format!("the argument `{}` {reason}", parameter.argument).into());
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => return wrong("must be a string, a number or a boolean"),
    };
    match parameter.location {
        Location::Path if text.is_empty() => wrong("must not be empty"),
        Location::Path if text.chars().any(char::is_control) => wrong("must not contain control characters"),
        Location::Path if !parameter.allows_slashes && text.contains(['/', '\\']) => {
            wrong("must not contain slashes: it is one part of a path")
        }
        // Servers that decode `%2F` early would leave the path.
        Location::Path if text.split(['/', '\\']).any(|part| part == "." || part == "..") => {
            wrong("must not contain the parts `.` or `..`")
        }
        Location::Header if !is_header_value(&text) => {
            wrong("must be visible ASCII characters on one line, to be sent as a header")
        }
        _ => Ok(text),
    }
}

fn is_header_value(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && text.trim() == text
}
