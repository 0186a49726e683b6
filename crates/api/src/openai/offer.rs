//! What a client offers a run: its functions, and its instructions as context.

use std::sync::Arc;

use houston_domain::client_offer::{ClientOffer, ClientTool, ContextItem};
use serde_json::{Value, json};

use crate::error::ApiError;

/// How the model reads instructions of clients: the agent's own come first.
const INSTRUCTIONS: &str = "Instructions of the application";

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
}
