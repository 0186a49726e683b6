//! Parameters and bodies of operations.

use serde_json::{Map, Value, json};

use super::Operation;
use super::Pointer;
use crate::json_api::{Body, Location, Parameter, Problem, description};

impl<'d> Operation<'d> {
    /// The parameters of the path and of the operation, which replace those of the same name and location.
    pub(super) fn parameters(&self, at: &Pointer) -> Result<Vec<Parameter>, Problem> {
        let mut parameters: Vec<Parameter> = Vec::new();
        for list in [&self.item["parameters"], &self.operation["parameters"]] {
            for (index, raw) in list.as_array().into_iter().flatten().enumerate() {
                let at = at.child("parameters").child(&index.to_string());
                let Some(parameter) = self.parameter(self.document.resolved(raw, &at)?, &at)? else {
                    continue;
                };
                let is_same =
                    |other: &Parameter| other.name == parameter.name && other.location == parameter.location;
                parameters.retain(|other| !is_same(other));
                parameters.push(parameter);
            }
        }
        // A name may stand in several locations, and not all of its characters may be those of an argument.
        for index in 0..parameters.len() {
            let argument = argument(&parameters[index].name);
            let is_taken =
                parameters[..index].iter().any(|other| other.argument == argument) || argument == "body";
            let location = parameters[index].location.name();
            parameters[index].argument = if is_taken { format!("{argument}_{location}") } else { argument };
        }
        Ok(parameters)
    }

    /// A parameter; `None` for one that can be left out and cannot be sent.
    fn parameter(&self, raw: &'d Value, at: &Pointer) -> Result<Option<Parameter>, Problem> {
        let Some(name) = raw["name"].as_str() else { return Err(at.problem("a parameter has no name")) };
        let is_required = raw["required"].as_bool().unwrap_or(false);
        let unsupported = |what: &str| match is_required {
            true => Err(at.problem(format!("the required parameter `{name}` {what}, which cannot be sent"))),
            false => Ok(None),
        };
        let location = match raw["in"].as_str() {
            Some("path") => Location::Path,
            Some("query") => Location::Query,
            Some("header") => Location::Header,
            Some("cookie") => return unsupported("is a cookie"),
            _ => {
                return Err(at.problem(format!(
                    "`in` of the parameter `{name}` is not path, query, header or cookie"
                )));
            }
        };
        // By the specification, these are not parameters.
        let is_ignored =
            ["accept", "content-type", "authorization"].iter().any(|other| name.eq_ignore_ascii_case(other));
        if location == Location::Header && is_ignored {
            return Ok(None);
        }
        let Some(schema) = raw.get("schema") else { return unsupported("has no schema") };
        let schema = self.document.schema(schema, &at.child("schema"))?;
        let usual = if location == Location::Query { "form" } else { "simple" };
        if raw["style"].as_str().is_some_and(|style| style != usual) {
            return unsupported("has a style other than the usual one");
        }
        let is_list = schema["type"] == "array";
        if schema["type"] == "object" || is_list && location != Location::Query {
            return unsupported("is an object or a list");
        }
        Ok(Some(Parameter {
            argument: String::new(),
            name: name.to_owned(),
            location,
            is_required,
            schema: described(schema, raw["description"].as_str()),
            repeats: raw["explode"].as_bool().unwrap_or(true),
            allows_slashes: false,
        }))
    }

    /// The body, if it is JSON.
    pub(super) fn body(&self, at: &Pointer) -> Result<Option<Body>, Problem> {
        let Some(raw) = self.operation.get("requestBody") else { return Ok(None) };
        let at = at.child("requestBody");
        let raw = self.document.resolved(raw, &at)?;
        let is_required = raw["required"].as_bool().unwrap_or(false);
        let empty = Map::new();
        let contents = raw["content"].as_object().unwrap_or(&empty);
        let is_json = |name: &str| {
            let essence = name.split(';').next().unwrap_or_default().trim();
            essence == "application/json" || essence.ends_with("+json") || essence == "*/*"
        };
        let Some((name, content)) = contents.iter().find(|(name, _)| is_json(name)) else {
            let names: Vec<&str> = contents.keys().map(String::as_str).collect();
            let message = format!("the body must be {}; only JSON can be sent", names.join(" or "));
            return if is_required { Err(at.problem(message)) } else { Ok(None) };
        };
        let at = at.child("content").child(name).child("schema");
        let schema = match content.get("schema") {
            Some(schema) => self.document.schema(schema, &at)?,
            None => json!({}),
        };
        Ok(Some(Body::Whole { schema: described(schema, raw["description"].as_str()), is_required }))
    }
}

/// The schema with a description, unless it has one.
fn described(mut schema: Value, text: Option<&str>) -> Value {
    if let (Some(text), Some(fields)) = (text, schema.as_object_mut())
        && !fields.contains_key("description")
    {
        fields.insert("description".to_owned(), json!(description(text)));
    }
    schema
}

/// A name in the characters that model providers allow for properties.
fn argument(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).take(48).collect()
}

impl Location {
    fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Body => "body",
        }
    }
}
