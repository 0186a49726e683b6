//! What a client offers a run: its functions, and its instructions as context.

use std::sync::Arc;

use houston_domain::answering::{Effort, Output, Sampling};
use houston_domain::client_offer::{ClientOffer, ClientTool, ContextItem};
use houston_domain::model_policy::{CachePolicy, Latency, ModelPolicy};
use houston_protocol::openai::parameters::Endpoint;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::error::{ApiError, Result};

/// How the model reads instructions of clients: the agent's own come first.
const INSTRUCTIONS: &str = "Instructions of the application";

/// Reads what a request offers, and how it is to be answered.
///
/// # Errors
/// [`ApiError::InvalidRequest`] at what cannot be used.
pub(super) fn read(
    endpoint: Endpoint,
    tools: &[Value],
    others: &Map<String, Value>,
    instructions: &[String],
) -> Result<ClientOffer> {
    let given = |name: &str| others.get(name).unwrap_or(&Value::Null);
    let output = match endpoint {
        Endpoint::Responses => output("/text/format", &given("text")["format"])?,
        Endpoint::Chat => output("/response_format", given("response_format"))?,
    };
    let mut offer = ClientOffer { output, ..of(tools, instructions)? };
    choose(&mut offer, others)?;
    tune(&mut offer, others)?;
    Ok(offer)
}

/// Reads the form of the answer: the `format` of a response, or the `response_format` of a chat completion, which has a schema in
/// `json_schema`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it is no known form, or its schema cannot be used.
fn output(pointer: &str, format: &Value) -> Result<Option<Output>> {
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
            strict: format["strict"] != false,
        },
        _ => {
            let reason = "must be `text`, `json_object` or `json_schema`";
            return Err(ApiError::field(&format!("{pointer}/type"), reason));
        }
    };
    output.check().map_err(|wrong| wrong.below(&pointer))?;
    Ok(Some(output))
}

/// What a request says of the client's functions, besides which there are.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when `tool_choice` is no known choice, or names a function that the client does not have.
fn choose(offer: &mut ClientOffer, others: &Map<String, Value>) -> Result<()> {
    let refused = |reason: &str| Err(ApiError::field("/tool_choice", reason));
    offer.one_call =
        others.get("parallel_tool_calls") == Some(&Value::Bool(false)) && !offer.tools.is_empty();
    let choice = others.get("tool_choice").unwrap_or(&Value::Null);
    let named = choice["name"].as_str().or_else(|| choice["function"]["name"].as_str());
    match (choice.as_str(), named) {
        (Some("auto"), _) => {}
        (None, None) if choice.is_null() => {}
        (Some("none"), _) => offer.tools.clear(),
        (Some("required"), _) if offer.tools.is_empty() => {
            return refused("`required` needs functions in `tools`: the agent chooses among its own tools");
        }
        (Some("required"), _) => {
            offer.must_call = offer.tools.iter().map(|tool| tool.name.clone()).collect();
        }
        (None, Some(name)) if choice["type"] == "function" => {
            if !offer.tools.iter().any(|tool| tool.name == name) {
                return refused(&format!("`{name}` is no function in `tools`"));
            }
            offer.must_call = vec![name.to_owned()];
        }
        _ => return refused("must be `auto`, `none`, `required` or a function of `tools`"),
    }
    Ok(())
}

/// Reads how the model is to choose its words, how much it thinks, and how long its answer may be.
///
/// # Errors
/// [`ApiError::InvalidRequest`] with the parameter that has a wrong type, or is out of range.
fn tune(offer: &mut ClientOffer, others: &Map<String, Value>) -> Result<()> {
    let given = |name: &str| others.get(name).filter(|value| !value.is_null());
    let number = |name: &str| -> Result<Option<f64>> {
        let Some(value) = given(name) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| ApiError::field(&format!("/{name}"), "must be a number"))
    };
    let (temperature, top_p) = (number("temperature")?, number("top_p")?);
    let (mut effort, mut effort_at) = (given("reasoning_effort"), "/reasoning_effort");
    if let Some(own) = given("reasoning").map(|reasoning| &reasoning["effort"]) {
        (effort, effort_at) = (Some(own).filter(|effort| !effort.is_null()), "/reasoning/effort");
    }
    let effort = match effort {
        // Houston's word for the highest one.
        Some(value) if value == "xhigh" => Some(Effort::Max),
        Some(value) => Some(Effort::deserialize(value).map_err(|_| {
            ApiError::field(effort_at, "must be `none`, `minimal`, `low`, `medium`, `high` or `xhigh`")
        })?),
        None => None,
    };
    let stop = match given("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(list) => Vec::deserialize(list)
            .map_err(|_| ApiError::field("/stop", "must be a text or a list of texts"))?,
    };
    offer.model_policy = policy(others)?;
    offer.sampling = Sampling { temperature, top_p, effort, stop };
    offer.sampling.check()?;
    for name in ["max_output_tokens", "max_completion_tokens", "max_tokens"] {
        let Some(value) = given(name) else { continue };
        let most = value.as_u64().filter(|most| *most > 0).and_then(|most| u32::try_from(most).ok());
        let most =
            most.ok_or_else(|| ApiError::field(&format!("/{name}"), "must be a whole number from 1"))?;
        offer.limits.max_output_tokens.get_or_insert(most);
    }
    Ok(())
}

/// Reads how soon the answer is needed, and how long its prompt is kept.
fn policy(others: &Map<String, Value>) -> Result<ModelPolicy> {
    let given = |name: &str| others.get(name).unwrap_or(&Value::Null);
    let (relaxed, fast) = (Some(Latency::Relaxed), Some(Latency::Fast));
    let tiers = [("auto", None), ("default", None), ("flex", relaxed), ("priority", fast), ("fast", fast)];
    let by_tier = one_of("/service_tier", given("service_tier"), &tiers)?;
    let window = &given("background_options")["completion_window"];
    let windows = [("2h", relaxed), ("8h", Some(Latency::Batch))];
    let by_window = one_of("/background_options/completion_window", window, &windows)?;
    let (short, long) = (Some(CachePolicy::Short), Some(CachePolicy::Long));
    let kept = [("in_memory", short), ("in-memory", short), ("24h", long)];
    let cache = one_of("/prompt_cache_retention", given("prompt_cache_retention"), &kept)?;
    Ok(ModelPolicy { cache, latency: by_window.or(by_tier) })
}

/// What a word means; `null` means nothing.
fn one_of<T: Copy>(pointer: &str, value: &Value, allowed: &[(&str, Option<T>)]) -> Result<Option<T>> {
    let meant = allowed.iter().find(|(word, _)| value == word).map(|(_, meant)| *meant);
    meant.or(value.is_null().then_some(None)).ok_or_else(|| {
        let words: Vec<&str> = allowed.iter().map(|(word, _)| *word).collect();
        ApiError::field(pointer, format!("must be one of `{}`", words.join("`, `")))
    })
}

/// Where a request has a setting.
pub(super) fn parameter(endpoint: Endpoint, setting: &str) -> String {
    match (endpoint, setting) {
        (Endpoint::Responses, "effort") => "/reasoning/effort".to_owned(),
        (Endpoint::Chat, "effort") => "/reasoning_effort".to_owned(),
        _ => format!("/{setting}"),
    }
}

/// Reads the functions of a response, or of a chat completion, which has them in `function`.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when a tool is no function, or has no name.
fn of(tools: &[Value], instructions: &[String]) -> Result<ClientOffer> {
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
    let tools = tools.collect::<Result<_>>()?;
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
        assert!(matches!(refused, Err(ApiError::InvalidRequest(_))));
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
    fn settings_of_both_endpoints_are_read() {
        let tuned = |others: Value| {
            let mut offer = ClientOffer::default();
            tune(&mut offer, others.as_object().unwrap())
                .map(|()| (offer.sampling, offer.limits.max_output_tokens))
        };
        let chat = json!({"temperature": 1, "top_p": 0.5, "stop": "END", "reasoning_effort": "xhigh", "max_tokens": 16});
        let responses = json!({"temperature": 1.0, "top_p": 0.5, "reasoning": {"effort": "xhigh", "summary": "auto"},
            "max_output_tokens": 16, "stop": ["END"]});
        let sampling = Sampling {
            temperature: Some(1.0),
            top_p: Some(0.5),
            effort: Some(Effort::Max),
            stop: vec!["END".to_owned()],
        };
        assert_eq!(tuned(chat).unwrap(), (sampling.clone(), Some(16)));
        assert_eq!(tuned(responses).unwrap(), (sampling, Some(16)));
        let nothing =
            json!({"temperature": null, "reasoning": {"effort": null}, "stop": null, "max_tokens": null});
        assert_eq!(tuned(nothing).unwrap(), (Sampling::default(), None));
        for (wrong, place) in [
            (json!({"temperature": "warm"}), "/temperature"),
            (json!({"temperature": 2.5}), "/temperature"),
            (json!({"top_p": 0}), "/top_p"),
            (json!({"stop": [1]}), "/stop"),
            (json!({"reasoning_effort": "ultra"}), "/reasoning_effort"),
            (json!({"reasoning": {"effort": "ultra"}}), "/reasoning/effort"),
            (json!({"max_output_tokens": 0}), "/max_output_tokens"),
            (json!({"max_tokens": 1.5}), "/max_tokens"),
        ] {
            match tuned(wrong) {
                Err(ApiError::InvalidRequest(errors)) => {
                    assert_eq!(errors[0].pointer.as_deref(), Some(place))
                }
                other => panic!("{place}: {other:?}"),
            }
        }
    }

    #[test]
    fn tiers_windows_and_retention_are_read() {
        let read =
            |others: Value| policy(others.as_object().unwrap()).map(|policy| (policy.latency, policy.cache));
        for (given, expected) in [
            (json!({}), (None, None)),
            (json!({"service_tier": "auto", "prompt_cache_retention": null}), (None, None)),
            (json!({"service_tier": "flex"}), (Some(Latency::Relaxed), None)),
            (json!({"service_tier": "priority"}), (Some(Latency::Fast), None)),
            (json!({"background_options": {"completion_window": "2h"}}), (Some(Latency::Relaxed), None)),
            (
                json!({"service_tier": "default", "background_options": {"completion_window": "8h"}}),
                (Some(Latency::Batch), None),
            ),
            (json!({"prompt_cache_retention": "24h"}), (None, Some(CachePolicy::Long))),
            (json!({"prompt_cache_retention": "in_memory"}), (None, Some(CachePolicy::Short))),
        ] {
            assert_eq!(read(given.clone()).unwrap(), expected, "{given}");
        }
        for (wrong, place) in [
            (json!({"service_tier": "cheap"}), "/service_tier"),
            (
                json!({"background_options": {"completion_window": "24h"}}),
                "/background_options/completion_window",
            ),
            (json!({"prompt_cache_retention": 24}), "/prompt_cache_retention"),
        ] {
            match read(wrong) {
                Err(ApiError::InvalidRequest(errors)) => {
                    assert_eq!(errors[0].pointer.as_deref(), Some(place))
                }
                other => panic!("{place}: {other:?}"),
            }
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
            Err(ApiError::InvalidRequest(errors)) => errors[0].pointer.clone().unwrap(),
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
