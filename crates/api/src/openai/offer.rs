//! What a client offers a run: its functions, and its instructions as context.

use std::sync::Arc;

use houston_domain::client_offer::{ClientOffer, ClientTool, ContextItem, Output};
use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// How the model reads instructions of clients: the agent's own come first.
const INSTRUCTIONS: &str = "Instructions of the application";

/// Reads the form of the answer: the `format` of a response, or the `response_format` of a chat completion, which has a schema in
/// `json_schema`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it is no known form, or its schema cannot be used.
pub(super) fn output(pointer: &str, format: &Value) -> Result<Option<Output>, ApiError> {
    let (pointer, format) = match &format["json_schema"] {
        nested if nested.is_object() && format["type"] == "json_schema" => {
            (format!("{pointer}/json_schema"), nested)
        }
        _ => (pointer.to_owned(), format),
    };
    let is_schema = pointer.ends_with("/json_schema") || format["type"] == "json_schema";
    let output = match format["type"].as_str() {
        None if format.is_null() => return Ok(None),
        Some("text") if !is_schema => return Ok(None),
        Some("json_object") if !is_schema => Output::any_object(),
        _ if is_schema => Output {
            name: format["name"].as_str().unwrap_or("answer").to_owned(),
            schema: Arc::new(format["schema"].clone()),
        },
        _ => {
            let reason = "must be `text`, `json_object` or `json_schema`";
            return Err(ApiError::field(&format!("{pointer}/type"), reason));
        }
    };
    match output.check() {
        Ok(()) => Ok(Some(output)),
        Err(wrong) => Err(ApiError::field(&format!("{pointer}{}", wrong.pointer), wrong.reason)),
    }
}

/// What a request says of the client's functions, besides which there are.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when `tool_choice` is no known choice, or names a function that the client does not have.
pub(super) fn choose(offer: &mut ClientOffer, others: &Map<String, Value>) -> Result<(), ApiError> {
    const POINTER: &str = "/tool_choice";
    offer.one_call =
        others.get("parallel_tool_calls") == Some(&Value::Bool(false)) && !offer.tools.is_empty();
    let choice = others.get("tool_choice").unwrap_or(&Value::Null);
    let named = choice["name"].as_str().or_else(|| choice["function"]["name"].as_str());
    match (choice.as_str(), named) {
        (Some("auto"), _) => {}
        (None, None) if choice.is_null() => {}
        (Some("none"), _) => offer.tools.clear(),
        (Some("required"), _) if !offer.tools.is_empty() => {
            offer.must_call = offer.tools.iter().map(|tool| tool.name.clone()).collect();
        }
        (Some("required"), _) => {
            let reason = "`required` needs functions in `tools`: the agent chooses among its own tools";
            return Err(ApiError::field(POINTER, reason));
        }
        (None, Some(name)) if choice["type"] == "function" => {
            if !offer.tools.iter().any(|tool| tool.name == name) {
                let reason = format!("`{name}` is no function in `tools`");
                return Err(ApiError::field(POINTER, reason));
            }
            offer.must_call = vec![name.to_owned()];
        }
        _ => {
            let reason = "must be `auto`, `none`, `required` or a function of `tools`";
            return Err(ApiError::field(POINTER, reason));
        }
    }
    Ok(())
}

/// Reads the functions of a response, or of a chat completion, which has them in `function`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when a tool is no function, or has no name.
pub(super) fn of(tools: &[Value], instructions: &[String]) -> Result<ClientOffer, ApiError> {
    let tools = tools.iter().enumerate().map(|(nth, tool)| {
        let kind = tool["type"].as_str().unwrap_or_default();
        if kind != "function" {
            let reason = format!(
                "`{kind}` is not supported; allowed: `function`. The agent has its own tools besides"
            );
            return Err(ApiError::field(&format!("/tools/{nth}/type"), reason));
        }
        let function = if tool["function"].is_object() { &tool["function"] } else { tool };
        let name = function["name"].as_str();
        let name = name.ok_or_else(|| ApiError::field(&format!("/tools/{nth}/name"), "must be a text"))?;
        let parameters = match &function["parameters"] {
            Value::Null => json!({"type": "object", "properties": {}}),
            given => given.clone(),
        };
        Ok(ClientTool {
            name: name.to_owned(),
            description: function["description"].as_str().unwrap_or_default().to_owned(),
            parameters: Arc::new(parameters),
        })
    });
    let tools = tools.collect::<Result<_, ApiError>>()?;
    let given = instructions.iter().filter(|text| !text.trim().is_empty());
    let context = given.map(|text| ContextItem { description: INSTRUCTIONS.to_owned(), value: text.clone() });
    Ok(ClientOffer { tools, context: context.collect(), ..ClientOffer::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_in_both_forms() {
        let function =
            json!({"name": "show_map", "description": "Shows a place.", "parameters": {"type": "object"}});
        let mut flat = function.clone();
        flat["type"] = json!("function");
        let nested = json!({"type": "function", "function": function});
        let of = |tool: Value| of(&[tool], &["Be brief.".to_owned(), String::new()]).unwrap();
        assert_eq!(of(flat.clone()), of(nested));
        let offer = of(flat);
        assert_eq!((offer.tools[0].name.as_str(), offer.context.len()), ("show_map", 1));
        let refused = super::of(&[json!({"type": "web_search"})], &[]);
        assert!(matches!(refused, Err(ApiError::InvalidRequest { .. })));
    }

    #[test]
    fn choice_is_among_the_functions_of_the_client() {
        let chosen = |others: Value| {
            let tools = ["a", "b"].map(|name| json!({"type": "function", "name": name}));
            let mut offer = super::of(&tools, &[]).unwrap();
            let chosen = choose(&mut offer, others.as_object().unwrap());
            chosen.map(|()| (offer.tools.len(), offer.must_call, offer.one_call)).map_err(|_| ())
        };
        let must = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            chosen(json!({"tool_choice": "auto", "parallel_tool_calls": true})),
            Ok((2, vec![], false))
        );
        assert_eq!(chosen(json!({"parallel_tool_calls": false})), Ok((2, vec![], true)));
        assert_eq!(chosen(json!({"tool_choice": "none"})), Ok((0, vec![], false)));
        assert_eq!(chosen(json!({"tool_choice": "required"})), Ok((2, must(&["a", "b"]), false)));
        let flat = json!({"tool_choice": {"type": "function", "name": "b"}});
        let nested = json!({"tool_choice": {"type": "function", "function": {"name": "b"}}});
        assert_eq!([chosen(flat), chosen(nested)], [(); 2].map(|()| Ok((2, must(&["b"]), false))));
        for wrong in [json!("any"), json!({"type": "function", "name": "c"}), json!({"type": "web_search"})] {
            assert_eq!(chosen(json!({"tool_choice": wrong})), Err(()));
        }
    }

    #[test]
    fn the_form_of_the_answer_is_read_in_both_places() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let flat = json!({"type": "json_schema", "name": "trip", "schema": schema, "strict": true});
        let nested = json!({"type": "json_schema", "json_schema": {"name": "trip", "schema": schema}});
        let read = output("/text/format", &flat).unwrap();
        assert_eq!(read, output("/response_format", &nested).unwrap());
        assert_eq!(read.unwrap().name, "trip");
        assert_eq!(output("", &json!({"type": "json_object"})).unwrap(), Some(Output::any_object()));
        assert_eq!(
            [output("", &Value::Null), output("", &json!({"type": "text"}))].map(Result::unwrap),
            [None, None]
        );
        let wrong = |format: Value| match output("/response_format", &format) {
            Err(ApiError::InvalidRequest { errors }) => errors[0].pointer.clone().unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(json!({"type": "grammar"})), "/response_format/type");
        let list = json!({"type": "json_schema", "json_schema": {"name": "l", "schema": {"type": "array"}}});
        assert_eq!(wrong(list), "/response_format/json_schema/schema");
        assert_eq!(
            wrong(json!({"type": "json_schema", "name": "a b", "schema": {}})),
            "/response_format/name"
        );
    }
}
