//! OpenAI Chat Completions, as used by OpenAI and a dozen compatible providers.
//!
//! The decoder handles the differences between servers: reasoning in two different fields; tool calls in pieces or
//! complete, interleaved or with the same index, without ids or arguments; usage in the last chunk or after it;
//! chunks without choices; errors within a stream.

pub(crate) mod stream;

use std::borrow::Cow;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::conversation::{self, Message, Shown, Turn, joined, system_text, texts};
use super::identifier::call_id;
use super::object::{Object, list};
use super::openai::{cache_options, function_tool, retention, tool_call};
use super::tool_schema;
use crate::model::{Description, Request, data_url, document_url, openai_effort};
use crate::profile::{OutputLimit, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks of reasoning.
const NAME: &str = "openai_chat";

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let effort = profile.effort_for(request);
    let effort_by = |way| effort.filter(|_| profile.thinking == way);
    let toggle = effort_by(Thinking::Toggle);
    let unthinking = request.is_unthinking(model, profile);
    let is_on = toggle.map(|effort| effort != Effort::None && !unthinking).or(unthinking.then_some(false));
    let schema = request.answer_schema.filter(|_| profile.schema_with_tools || tools.is_empty());
    let format = match (schema, profile.result_schema) {
        (Some(form), SchemaSupport::JsonSchema) => {
            let schema = tool_schema::named(Object::new(), form, profile.strict_schema);
            Object::typed("json_schema").nested("json_schema", schema)
        }
        (Some(_), SchemaSupport::JsonObject) => Object::typed("json_object"),
        _ => Object::new(),
    };
    let choice = |name| {
        let this = json!({"type": "function", "function": {"name": name}});
        profile.forced_tool.choice(this, json!("required"))
    };
    let limit = match profile.output_limit {
        OutputLimit::MaxTokens => "max_tokens",
        OutputLimit::MaxCompletionTokens => "max_completion_tokens",
    };
    let messages = messages(model, profile, request, schema.is_some());
    let tools = tools.iter().filter_map(|tool| function_tool(tool, &tool_schema::RULES.openai));
    Object::new()
        .with("model", &model.model)
        .with("stream", true)
        .maybe("stream_options", profile.stream_options.then(|| json!({"include_usage": true})))
        .with(limit, request.max_output_tokens)
        .maybe("prompt_cache_key", profile.cache_key_for(request))
        .maybe("prompt_cache_retention", retention(profile, request))
        .nested("prompt_cache_options", cache_options(profile, request, false))
        .maybe("service_tier", profile.tier_for(request))
        .nested("response_format", format)
        .json("messages", list(messages))
        .all("tools", tools)
        .maybe("tool_choice", request.forced_tool(model).and_then(choice))
        .maybe("temperature", profile.temperature_for(request))
        .maybe("top_p", profile.top_p_for(request))
        .listed("stop", profile.stop_for(request))
        .maybe(
            "reasoning_effort",
            effort_by(Thinking::Effort).or(toggle.filter(|_| is_on == Some(true))).map(openai_effort),
        )
        .maybe(
            "reasoning",
            effort_by(Thinking::Reasoning).map(|effort| json!({"effort": openai_effort(effort)})),
        )
        .maybe("thinking", is_on.map(|is_on| json!({"type": if is_on { "enabled" } else { "disabled" }})))
        .end()
}

/// `enforces`: whether the provider is sent the answer schema as far as it supports schemas.
fn messages(model: &Description, profile: &Profile, request: &Request<'_>, enforces: bool) -> Vec<Vec<u8>> {
    let enforces = enforces && profile.result_schema == SchemaSupport::JsonSchema;
    let prompt_schema = request.answer_schema.filter(|_| !enforces);
    let prompt_schema = prompt_schema.map(tool_schema::instruction);
    let system = joined(system_text(request.system).as_deref().into_iter().chain(prompt_schema.as_deref()));
    let system = system.map(|content| of("system").with("content", content).end());
    let mut messages: Vec<_> = system.into_iter().collect();
    let is_own = |raw: &RawBlock| own_raw(raw, &model.provider).is_some();
    let context = request.context().map(Cow::Borrowed);
    let mut said = conversation::messages(request.entries, context, is_own).into_iter().peekable();
    let mut is_after_tool = false;
    while let Some(message) = said.next() {
        let was_after_tool = std::mem::replace(&mut is_after_tool, matches!(message, Message::Result { .. }));
        let message = match message {
            Message::User { text, blocks } => {
                if was_after_tool && profile.requires_assistant_after_tool {
                    messages.push(of("assistant").with("content", INSERTED_REPLY).end());
                }
                let last = Some(request).filter(|_| said.peek().is_none());
                user(&text, &blocks, profile, last)
            }
            Message::Result { id, text } => {
                let id = call_id(id, profile.nine_character_ids);
                of("tool").with("tool_call_id", id).with("content", text)
            }
            Message::Assistant(turn) => assistant(&turn, profile, &model.provider),
        };
        messages.push(message.end());
    }
    messages
}

/// A message of this role, still without content.
fn of(role: &str) -> Object {
    Object::new().with("role", role)
}

/// Raw data of a block: reasoning as `reasoning_details` or as text of the field named by `field`; or the
/// `extra_content` of a tool call.
#[derive(Deserialize)]
struct RawData<'a> {
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    field: Option<Cow<'a, str>>,
}

fn own_raw<'a>(raw: &'a RawBlock, provider: &str) -> Option<RawData<'a>> {
    serde_json::from_str(raw.of(NAME, provider)?).ok()
}

/// Content of the assistant message inserted between a tool result and a user message.
const INSERTED_REPLY: &str = "OK.";

/// A message of the user: a text, or parts if the model is sent images or PDFs. With `last` it ends the request.
fn user(text: &str, blocks: &[&Block], profile: &Profile, last: Option<&Request<'_>>) -> Object {
    let of_text = |text: &str| Object::typed("text").with("text", text).end();
    let of_image =
        |url: String| Object::typed("image_url").nested("image_url", Object::new().with("url", url)).end();
    let shown: Vec<_> = blocks.iter().filter_map(|block| Shown::of(block, profile)).collect();
    if shown.iter().all(|shown| matches!(shown, Shown::Text(_))) {
        return match last.and_then(|request| request.image) {
            Some(image) => of("user").json("content", list([of_text(text), of_image(image.data_url())])),
            None => of("user").with("content", text),
        };
    }
    let parts = shown.into_iter().map(|shown| match shown {
        Shown::Text(text) => of_text(text),
        Shown::Image(image) => of_image(data_url(image)),
        Shown::Document(document) => {
            let file = Object::new().with("filename", &document.name);
            Object::typed("file").nested("file", file.with("file_data", document_url(document))).end()
        }
    });
    of("user").json("content", list(parts.chain(last.and_then(Request::context).map(of_text))))
}

fn assistant(turn: &Turn<'_>, profile: &Profile, provider: &str) -> Object {
    let (mut reasoning_content, mut reasoning, mut details) = (None, None, None);
    let mut calls = Vec::new();
    for block in &turn.blocks {
        match block {
            Block::ToolUse { id, name, input, raw } => {
                let extra = raw.as_ref().and_then(|raw| own_raw(raw, provider)?.extra_content);
                calls.push(tool_call(&call_id(id, profile.nine_character_ids), name, input, extra));
            }
            Block::Thinking { text, raw: Some(raw) } => {
                let Some(raw) = own_raw(raw, provider) else { continue };
                details = raw.reasoning_details;
                match raw.field.as_deref() {
                    Some("reasoning_content") => reasoning_content = Some(text.as_str()),
                    Some("reasoning") => reasoning = Some(text),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    if profile.requires_reasoning_content && !calls.is_empty() {
        reasoning_content.get_or_insert("");
    }
    // The field `content` is `null` if there are only tool calls.
    let message =
        of("assistant").with("content", joined(texts(turn))).maybe("reasoning_content", reasoning_content);
    message.maybe("reasoning", reasoning).maybe("reasoning_details", details).all("tool_calls", calls)
}

#[cfg(test)]
mod tests;
