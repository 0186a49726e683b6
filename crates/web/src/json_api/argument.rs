//! Checks of the arguments that a model chose, and how their values are written.

use serde_json::{Map, Value};

use super::{Body, Endpoint, Location, Parameter};
use crate::error::Fault;

/// Why no request can be made from arguments. The texts are for models.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// A required argument is missing.
    #[error("the argument `{0}` is missing")]
    Missing(String),
    /// An argument that the endpoint does not have.
    #[error("there is no argument `{argument}`; allowed are: {allowed}")]
    Unknown {
        /// Its name.
        argument: String,
        /// The names of all arguments.
        allowed: String,
    },
    /// A value of the wrong type.
    #[error("the argument `{argument}` must be of type {expected}")]
    Type {
        /// The argument's name.
        argument: String,
        /// The type or types of its schema.
        expected: String,
    },
    /// A value that is not allowed.
    #[error("the argument `{argument}` {reason}")]
    Value {
        /// The argument's name.
        argument: String,
        /// What is wrong and what is allowed.
        reason: String,
    },
    /// The values together make no valid URL.
    #[error("{0}")]
    Url(String),
    /// A secret that the definition names is not set.
    #[error("the secret `{0}` is not set: without it this endpoint cannot be called")]
    NoSecret(String),
    /// A secret or a key with characters that no header can have.
    #[error("the value for the header `{0}` has characters that a header cannot have")]
    Header(String),
}

impl From<String> for ArgumentError {
    fn from(reason: String) -> Self {
        Self::Url(reason)
    }
}

impl ArgumentError {
    /// What the failure means to a tool.
    pub fn fault(&self) -> Fault {
        match self {
            Self::NoSecret(_) | Self::Header(_) => Fault::Config,
            _ => Fault::Invalid,
        }
    }
}

/// Checks that arguments are complete and no others, and their types and enumerated values. What is deeper inside a
/// value is left to the server.
pub(super) fn check(endpoint: &Endpoint, arguments: &Map<String, Value>) -> Result<(), ArgumentError> {
    let whole = matches!(endpoint.body, Body::Whole { .. }).then_some("body");
    let names = || endpoint.parameters.iter().map(|parameter| parameter.argument.as_str()).chain(whole);
    if let Some(unknown) = arguments.keys().find(|name| !names().any(|other| other == name.as_str())) {
        let allowed: Vec<String> = names().map(|name| format!("`{name}`")).collect();
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        return Err(ArgumentError::Unknown { argument: unknown.clone(), allowed });
    }
    for parameter in &endpoint.parameters {
        one(&parameter.argument, parameter.is_required, &parameter.schema, arguments)?;
    }
    match &endpoint.body {
        Body::Whole { schema, is_required } => one("body", *is_required, schema, arguments),
        Body::Fields => Ok(()),
    }
}

fn one(
    name: &str,
    is_required: bool,
    schema: &Value,
    arguments: &Map<String, Value>,
) -> Result<(), ArgumentError> {
    let argument = name.to_owned();
    let Some(value) = given(arguments, name, schema) else {
        return if is_required { Err(ArgumentError::Missing(argument)) } else { Ok(()) };
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_null = value.is_null() && schema["nullable"] == Value::Bool(true);
    if !types.is_empty() && !is_null && !types.iter().any(|name| is_of_type(value, name)) {
        return Err(ArgumentError::Type { argument, expected: types.join(" or ") });
    }
    match schema["enum"].as_array() {
        Some(allowed) if !allowed.contains(value) => {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            Err(ArgumentError::Value { argument, reason: format!("must be one of {}", allowed.join(", ")) })
        }
        _ => Ok(()),
    }
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
pub(super) fn text(parameter: &Parameter, value: &Value) -> Result<String, ArgumentError> {
    let wrong = |reason: &str| {
        Err(ArgumentError::Value { argument: parameter.argument.clone(), reason: reason.to_owned() })
    };
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
