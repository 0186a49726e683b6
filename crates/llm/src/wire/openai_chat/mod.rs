//! OpenAI Chat Completions, as used by OpenAI and a dozen compatible providers.
//!
//! The decoder handles the differences between servers: reasoning in two different fields; tool calls in pieces or
//! complete, interleaved or with the same index, without ids or arguments; usage in the last chunk or after it;
//! chunks without choices; errors within a stream.

pub(crate) mod stream;

use std::borrow::Cow;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::conversation::{
    BlockUse, Shown, Turn, append_context, joined, system_text, texts, turns, user_texts,
};
use super::identifier::call_id;
use super::object::Object;
use super::openai::{CacheOptions, FunctionTool, ToolCall, retention};
use super::tool_schema::{self, NamedSchema};
use crate::model::{Description, Request, data_url, document_url, openai_effort};
use crate::profile::{OutputLimit, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks of reasoning.
const NAME: &str = "openai_chat";

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: String,
    },
    User {
        content: Cow<'a, str>,
    },
    #[serde(rename = "user")]
    Seeing {
        content: Vec<ContentPart<'a>>,
    },
    Assistant(Assistant<'a>),
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    /// A `data:` URL.
    file_data: String,
}

#[derive(Serialize)]
struct ImageUrl {
    /// A `data:` URL.
    url: String,
}

#[derive(Default, Serialize)]
struct Assistant<'a> {
    /// `null` if there are only tool calls.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
}

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let effort = profile.effort_for(request);
    let effort_by = |way| effort.filter(|_| profile.thinking == way);
    let toggle = effort_by(Thinking::Toggle);
    let unthinking = request.is_unthinking(model, profile);
    let is_on = toggle.map(|effort| effort != Effort::None && !unthinking).or(unthinking.then_some(false));
    let schema = request.answer_schema.filter(|_| profile.schema_with_tools || tools.is_empty());
    let format = schema.and_then(|form| match profile.result_schema {
        SchemaSupport::JsonSchema => {
            let schema = NamedSchema::new(form, profile.strict_schema);
            Some(json!({"type": "json_schema", "json_schema": schema}))
        }
        SchemaSupport::JsonObject => Some(json!({"type": "json_object"})),
        SchemaSupport::PromptOnly => None,
    });
    let choice = |name| {
        let this = json!({"type": "function", "function": {"name": name}});
        profile.forced_tool.choice(this, json!("required"))
    };
    let limit = match profile.output_limit {
        OutputLimit::MaxTokens => "max_tokens",
        OutputLimit::MaxCompletionTokens => "max_completion_tokens",
    };
    let messages = messages(model, profile, request, schema.is_some());
    let tools: Vec<_> =
        tools.iter().filter_map(|tool| FunctionTool::new(tool, &tool_schema::OPENAI)).collect();
    Object::new()
        .with("model", &model.model)
        .with("stream", true)
        .maybe("stream_options", profile.stream_options.then(|| json!({"include_usage": true})))
        .with(limit, request.max_output_tokens)
        .maybe("prompt_cache_key", profile.cache_key_for(request))
        .maybe("prompt_cache_retention", retention(profile, request))
        .maybe("prompt_cache_options", CacheOptions::of(profile, request, false))
        .maybe("service_tier", profile.tier_for(request))
        .maybe("response_format", format)
        .with("messages", messages)
        .listed("tools", &tools)
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
fn messages<'a>(
    model: &Description,
    profile: &Profile,
    request: &Request<'a>,
    enforces: bool,
) -> Vec<Message<'a>> {
    let enforces = enforces && profile.result_schema == SchemaSupport::JsonSchema;
    let prompt_schema = request.answer_schema.filter(|_| !enforces);
    let prompt_schema = prompt_schema.map(tool_schema::instruction);
    let system = joined(system_text(request.system).as_deref().into_iter().chain(prompt_schema.as_deref()));
    let mut messages: Vec<_> = system.map(|content| Message::System { content }).into_iter().collect();
    let block_use = |block: &Block| match block {
        Block::Thinking { raw: Some(raw), .. } if own_raw(raw, &model.provider).is_some() => {
            BlockUse::SendBeforeOthers
        }
        Block::Thinking { .. } | Block::Opaque { .. } => BlockUse::Drop,
        _ => BlockUse::Send,
    };
    for turn in turns(request.entries, block_use) {
        match turn.role {
            Role::User => push_user(&turn, profile, &mut messages),
            Role::Assistant => messages.push(Message::Assistant(assistant(&turn, profile, &model.provider))),
        }
    }
    match (request.context(), messages.last_mut()) {
        (Some(context), Some(Message::User { content } | Message::Tool { content, .. })) => {
            append_context(content, context);
        }
        (Some(context), Some(Message::Seeing { content })) => {
            content.push(ContentPart::Text { text: context.into() });
        }
        (Some(context), _) => messages.push(Message::User { content: context.into() }),
        (None, _) => {}
    }
    if let (Some(image), Some(last)) = (request.image, messages.last_mut())
        && let Message::User { content } = last
    {
        let image_url = ImageUrl { url: image.data_url() };
        let content =
            vec![ContentPart::Text { text: std::mem::take(content) }, ContentPart::ImageUrl { image_url }];
        *last = Message::Seeing { content };
    }
    messages
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

/// Each tool result is a message of its own; the user's text follows as one message, in parts if the model is sent images or
/// PDFs.
fn push_user<'a>(turn: &Turn<'a>, profile: &Profile, messages: &mut Vec<Message<'a>>) {
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, .. } = block {
            let tool_call_id = call_id(tool_use_id, profile.nine_character_ids);
            messages.push(Message::Tool { tool_call_id, content: content.into() });
        }
    }
    let parts: Vec<_> = turn.blocks.iter().filter_map(|block| part(block, profile)).collect();
    let Some(content) = joined(user_texts(turn)) else { return };
    if profile.requires_assistant_after_tool && matches!(messages.last(), Some(Message::Tool { .. })) {
        let reply = Assistant { content: Some(INSERTED_REPLY.to_owned()), ..Assistant::default() };
        messages.push(Message::Assistant(reply));
    }
    messages.push(if parts.iter().all(|part| matches!(part, ContentPart::Text { .. })) {
        Message::User { content: content.into() }
    } else {
        Message::Seeing { content: parts }
    });
}

/// A part of a turn of the user.
fn part<'a>(block: &'a Block, profile: &Profile) -> Option<ContentPart<'a>> {
    Some(match Shown::of(block, profile)? {
        Shown::Text(text) => ContentPart::Text { text: text.into() },
        Shown::Image(image) => ContentPart::ImageUrl { image_url: ImageUrl { url: data_url(image) } },
        Shown::Document(document) => {
            let file = File { filename: &document.name, file_data: document_url(document) };
            ContentPart::File { file }
        }
    })
}

fn assistant<'a>(turn: &Turn<'a>, profile: &Profile, provider: &str) -> Assistant<'a> {
    let mut message = Assistant { content: joined(texts(turn)), ..Assistant::default() };
    for block in &turn.blocks {
        match block {
            Block::ToolUse { id, name, input, raw } => {
                let mut call = ToolCall::new(call_id(id, profile.nine_character_ids), name, input);
                call.extra_content = raw.as_ref().and_then(|raw| own_raw(raw, provider)?.extra_content);
                message.tool_calls.push(call);
            }
            Block::Thinking { text, raw: Some(raw) } => {
                let Some(reasoning) = own_raw(raw, provider) else { continue };
                message.reasoning_details = reasoning.reasoning_details;
                match reasoning.field.as_deref() {
                    Some("reasoning_content") => message.reasoning_content = Some(text),
                    Some("reasoning") => message.reasoning = Some(text),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    if profile.requires_reasoning_content && !message.tool_calls.is_empty() {
        message.reasoning_content.get_or_insert("");
    }
    message
}

#[cfg(test)]
mod tests;
