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
use serde_json::value::RawValue;

use super::conversation::{
    BlockUse, Turn, append_context, joined, system_text, turns, user_text, user_texts,
};
use super::identifier::{call_id, tool_name};
use super::openai::{CacheOptions, FunctionChoice, FunctionTool, retention};
use super::tool_schema::{self, NamedSchema};
use crate::model::{Description, Request, data_url, document_url, openai_effort};
use crate::profile::{ForcedTool, OutputLimit, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks of reasoning.
const NAME: &str = "openai_chat";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_options: Option<CacheOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FunctionTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Toggle>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ToolChoice<'a> {
    Named(FunctionChoice<'a>),
    Mode(&'static str),
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

/// Switches thinking on or off.
#[derive(Serialize)]
struct Toggle {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl Toggle {
    fn new(is_on: bool) -> Self {
        Self { kind: if is_on { "enabled" } else { "disabled" } }
    }
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: NamedSchema<'a> },
}

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

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    /// A JSON object, encoded as a string.
    arguments: String,
}

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let limit = |name| (profile.output_limit == name).then_some(request.max_output_tokens);
    let (tools, _) = request.tools_for(model, profile);
    let effort = profile.effort_for(request);
    let effort_by = |way| effort.filter(|_| profile.thinking == way);
    let toggle = effort_by(Thinking::Toggle);
    let unthinking = request.is_unthinking(model, profile);
    let schema = request.answer_schema.filter(|_| profile.schema_with_tools || tools.is_empty());
    let body = Body {
        model: &model.model,
        stream: true,
        stream_options: profile.stream_options.then_some(StreamOptions { include_usage: true }),
        max_tokens: limit(OutputLimit::MaxTokens),
        max_completion_tokens: limit(OutputLimit::MaxCompletionTokens),
        prompt_cache_key: profile.cache_key_for(request),
        prompt_cache_retention: retention(profile, request),
        prompt_cache_options: CacheOptions::of(profile, request, false),
        service_tier: profile.tier_for(request),
        response_format: schema.and_then(|form| match profile.result_schema {
            SchemaSupport::JsonSchema => {
                let json_schema = NamedSchema::new(form, profile.strict_schema);
                Some(ResponseFormat::JsonSchema { json_schema })
            }
            SchemaSupport::JsonObject => Some(ResponseFormat::JsonObject),
            SchemaSupport::PromptOnly => None,
        }),
        messages: messages(model, profile, request, schema.is_some()),
        tools: tools.iter().filter_map(|tool| FunctionTool::new(tool, &tool_schema::OPENAI)).collect(),
        tool_choice: request.forced_tool(model).and_then(|name| match profile.forced_tool {
            ForcedTool::Named | ForcedTool::WithoutThinking => {
                Some(ToolChoice::Named(FunctionChoice::new(name)))
            }
            ForcedTool::Required => Some(ToolChoice::Mode("required")),
            ForcedTool::Auto => None,
        }),
        temperature: profile.temperature_for(request),
        top_p: profile.top_p_for(request),
        stop: profile.stop_for(request),
        reasoning_effort: effort_by(Thinking::Effort)
            .or(toggle.filter(|effort| *effort != Effort::None && !unthinking))
            .map(openai_effort),
        reasoning: effort_by(Thinking::Reasoning).map(|effort| Reasoning { effort: openai_effort(effort) }),
        thinking: if unthinking {
            Some(Toggle::new(false))
        } else {
            toggle.map(|effort| Toggle::new(effort != Effort::None))
        },
    };
    // Cannot fail: all map keys are strings, and no `Serialize` implementation returns an error.
    serde_json::to_vec(&body).unwrap_or_default()
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
    let sent = (profile.sees(), profile.takes_documents());
    for turn in turns(request.entries, block_use) {
        match turn.role {
            Role::User => push_user(&turn, profile, sent, &mut messages),
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
fn push_user<'a>(turn: &Turn<'a>, profile: &Profile, sent: (bool, bool), messages: &mut Vec<Message<'a>>) {
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, .. } = block {
            let tool_call_id = call_id(tool_use_id, profile.nine_character_ids);
            messages.push(Message::Tool { tool_call_id, content: content.into() });
        }
    }
    let Some(content) = joined(user_texts(turn)) else { return };
    if profile.requires_assistant_after_tool && matches!(messages.last(), Some(Message::Tool { .. })) {
        let reply = Assistant { content: Some(INSERTED_REPLY.to_owned()), ..Assistant::default() };
        messages.push(Message::Assistant(reply));
    }
    messages.push(match seen_parts(turn, sent) {
        Some(content) => Message::Seeing { content },
        None => Message::User { content: content.into() },
    });
}

/// The parts of a turn of the user; `None` if all are texts.
fn seen_parts<'a>(turn: &Turn<'a>, (sees, takes_documents): (bool, bool)) -> Option<Vec<ContentPart<'a>>> {
    let text = |text: &'a str| ContentPart::Text { text: text.into() };
    let part = |block: &&'a Block| match block {
        Block::Text { text: said, .. } => Some(text(user_text(said))),
        Block::Image(image) if sees => {
            Some(ContentPart::ImageUrl { image_url: ImageUrl { url: data_url(image) } })
        }
        Block::Image(image) => Some(text(&image.unseen)),
        Block::Document(document) if takes_documents => {
            let file = File { filename: &document.name, file_data: document_url(document) };
            Some(ContentPart::File { file })
        }
        Block::Document(document) => Some(text(&document.unread)),
        _ => None,
    };
    let is_other = |block: &&Block| match block {
        Block::Image(_) => sees,
        Block::Document(_) => takes_documents,
        _ => false,
    };
    turn.blocks.iter().any(is_other).then(|| turn.blocks.iter().filter_map(part).collect())
}

fn assistant<'a>(turn: &Turn<'a>, profile: &Profile, provider: &str) -> Assistant<'a> {
    let mut message = Assistant { content: joined(texts(turn)), ..Assistant::default() };
    for block in &turn.blocks {
        match block {
            Block::ToolUse { id, name, input, raw } => message.tool_calls.push(ToolCall {
                id: call_id(id, profile.nine_character_ids),
                kind: "function",
                function: Function { name: tool_name(name), arguments: input.to_string() },
                extra_content: raw.as_ref().and_then(|raw| own_raw(raw, provider)?.extra_content),
            }),
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

fn texts<'a>(turn: &Turn<'a>) -> impl Iterator<Item = &'a str> {
    turn.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
