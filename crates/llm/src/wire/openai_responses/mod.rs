//! OpenAI Responses, used without server-side state (`store: false`): encrypted reasoning is part of each answer and
//! is sent back with the next request.
//!
//! An answer is a list of items, each opened, continued and closed by its index in the list. Reasoning, the
//! provider's own tools, and messages with annotations are stored as the provider sent them ([`RawBlock`]). Item ids
//! are not used: a few servers change them from event to event.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod stream;

use std::borrow::Cow;
use std::sync::Arc;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock, Role};
use houston_domain::tool_call::ToolDefinition;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::conversation::{Shown, Turn, append_context, block_use, joined, system_text, turns};
use super::identifier::{call_id, tool_name};
use super::object::Object;
use super::openai::{Breakpoint, CacheOptions, EXPLICIT, retention};
use super::tool_schema::{self, NamedSchema};
use crate::model::{Description, Request, data_url, document_url, openai_effort};
use crate::profile::{CacheControl, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "openai_responses";

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Arc<Value>,
    /// Always sent: the default is `true`, with which most schemas are rejected.
    strict: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    defer_loading: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyTool<'a> {
    Own(Tool<'a>),
    /// The provider's search for deferred tools: <https://developers.openai.com/api/docs/guides/tools-tool-search>.
    Search(Value),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Plain(Plain<'a>),
    /// As the provider sent it.
    Raw(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Plain<'a> {
    Message { role: &'static str, content: Content<'a> },
    FunctionCall { call_id: Cow<'a, str>, name: Cow<'a, str>, arguments: String },
    FunctionCallOutput { call_id: Cow<'a, str>, output: Output<'a> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    kind: PartKind<'a>,
    /// The end of what is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_breakpoint: Option<Breakpoint>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum PartKind<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image {
        /// A `data:` URL.
        image_url: String,
    },
    #[serde(rename = "input_file")]
    File {
        filename: &'a str,
        /// A `data:` URL.
        file_data: String,
    },
}

impl<'a> From<PartKind<'a>> for Part<'a> {
    fn from(kind: PartKind<'a>) -> Self {
        Self { kind, prompt_cache_breakpoint: None }
    }
}

fn text_part<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    PartKind::Text { text: text.into() }.into()
}

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (direct, deferred) = request.tools_for(model, profile);
    let has_tools = !direct.is_empty();
    let tools = direct
        .iter()
        .filter_map(|tool| function(tool, false))
        .chain((!deferred.is_empty()).then(|| AnyTool::Search(json!({"type": "tool_search"}))));
    let tools: Vec<_> = tools.chain(deferred.iter().filter_map(|tool| function(tool, true))).collect();
    let mut input = Vec::new();
    for turn in
        turns(request.entries, |block| block_use(block, |raw| own_raw(raw, &model.provider).is_some()))
    {
        match turn.role {
            Role::User => push_user(&turn, profile, &mut input),
            Role::Assistant => push_assistant(&turn, &model.provider, &mut input),
        }
    }
    if profile.cache == CacheControl::Options && profile.lifetime(request).is_some() {
        mark(&mut input);
    }
    if let (Some(image), Some(Item::Plain(Plain::Message { content: Content::Parts(parts), .. }))) =
        (request.image, input.last_mut())
    {
        parts.push(PartKind::Image { image_url: image.data_url() }.into());
    }
    if let Some(text) = request.context() {
        push_context(text, &mut input);
    }
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let enforces = enforces && (profile.schema_with_tools || !has_tools);
    let enforced_schema = request.answer_schema.filter(|_| enforces);
    let prompt_schema = request.answer_schema.filter(|_| !enforces).map(tool_schema::instruction);
    let instructions =
        joined(system_text(request.system).as_deref().into_iter().chain(prompt_schema.as_deref()));
    let choice =
        |name| profile.forced_tool.choice(json!({"type": "function", "name": name}), json!("required"));
    let format = enforced_schema
        .map(|form| Format { kind: "json_schema", schema: NamedSchema::new(form, profile.strict_schema) });
    let effort = effort(model, profile, request);
    Object::new()
        .with("model", &model.model)
        .with("stream", true)
        .with("store", false)
        // So that it can be sent back to a provider that stores nothing.
        .maybe("include", profile.encrypted_reasoning.then_some(["reasoning.encrypted_content"]))
        .with("max_output_tokens", request.max_output_tokens)
        .maybe("prompt_cache_key", profile.cache_key_for(request))
        .maybe("prompt_cache_retention", retention(profile, request))
        .maybe("prompt_cache_options", CacheOptions::of(profile, request, true))
        .maybe("service_tier", profile.tier_for(request))
        .maybe("instructions", instructions)
        .listed("tools", &tools)
        .maybe("tool_choice", request.forced_tool(model).and_then(choice))
        .maybe("temperature", profile.temperature_for(request))
        .maybe("top_p", profile.top_p_for(request))
        .maybe("reasoning", effort.map(|effort| json!({"effort": openai_effort(effort)})))
        .nested("text", Object::new().maybe("format", format))
        .with("input", input)
        .end()
}

fn function(tool: &ToolDefinition, defer_loading: bool) -> Option<AnyTool<'_>> {
    let ToolDefinition { name, description, .. } = tool;
    let parameters = tool_schema::OPENAI.parameters(tool)?;
    Some(AnyTool::Own(Tool { kind: "function", name, description, parameters, strict: false, defer_loading }))
}

fn effort(model: &Description, profile: &Profile, request: &Request<'_>) -> Option<Effort> {
    if request.is_unthinking(model, profile) {
        return Some(Effort::None);
    }
    let by_effort = matches!(profile.thinking, Thinking::Effort | Thinking::Reasoning);
    profile.effort_for(request).filter(|_| by_effort)
}

/// A raw block, if this provider wrote it.
fn own_raw<'a>(raw: &'a RawBlock, provider: &str) -> Option<&'a RawValue> {
    serde_json::from_str(raw.of(NAME, provider)?).ok()
}

/// Each tool result is an item of its own; the user's text follows as one message, with images and PDFs if the model is sent
/// them.
fn push_user<'a>(turn: &Turn<'a>, profile: &Profile, input: &mut Vec<Item<'a>>) {
    let mut parts = Vec::new();
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, .. } = block {
            let output = Output::Text(content.into());
            let call_id = call_id(tool_use_id, false);
            input.push(Item::Plain(Plain::FunctionCallOutput { call_id, output }));
        }
        parts.extend(Shown::of(block, profile).map(|shown| match shown {
            Shown::Text(text) => text_part(text),
            Shown::Image(image) => PartKind::Image { image_url: data_url(image) }.into(),
            Shown::Document(document) => {
                PartKind::File { filename: &document.name, file_data: document_url(document) }.into()
            }
        }));
    }
    if !parts.is_empty() {
        let content = Content::Parts(parts);
        input.push(Item::Plain(Plain::Message { role: Role::User.as_str(), content }));
    }
}

/// Appends the system context to the last user message or tool result, so that the next request starts with
/// everything before it. As a message of its own after a tool result it would look like the user's next turn.
fn push_context<'a>(text: &'a str, input: &mut Vec<Item<'a>>) {
    let part = text_part(text);
    match input.last_mut() {
        Some(Item::Plain(Plain::Message { content: Content::Parts(parts), .. })) => parts.push(part),
        Some(Item::Plain(Plain::FunctionCallOutput { output: Output::Text(output), .. })) => {
            append_context(output, text);
        }
        Some(Item::Plain(Plain::FunctionCallOutput { output: Output::Parts(parts), .. })) => {
            parts.push(part);
        }
        _ => {
            let content = Content::Parts(vec![part]);
            input.push(Item::Plain(Plain::Message { role: Role::User.as_str(), content }));
        }
    }
}

/// How many ends of what the user's side has said are marked: a request writes what is kept at the last one, and reads at the
/// one before what the previous request has written.
const MARKED_TURNS: usize = 2;

/// Marks the ends of the last turns of the user's side. What the provider would mark itself is the end of the request, which has
/// the system context: no further request begins like that. Results of tools are sent as parts, marked or not, so that they stay the
/// same in the next request.
fn mark(input: &mut [Item<'_>]) {
    let (mut left, mut is_later) = (MARKED_TURNS, false);
    for item in input.iter_mut().rev() {
        // Only the last item of a turn ends it.
        let is_end = left > 0 && !is_later;
        match item {
            Item::Plain(Plain::Message { content: Content::Parts(parts), .. }) => end(parts, is_end),
            Item::Plain(Plain::FunctionCallOutput { output, .. }) => {
                let mut parts = match output {
                    Output::Text(text) => vec![text_part(std::mem::take(text))],
                    Output::Parts(parts) => std::mem::take(parts),
                };
                end(&mut parts, is_end);
                *output = Output::Parts(parts);
            }
            _ => {
                is_later = false;
                continue;
            }
        }
        left -= usize::from(is_end);
        is_later = true;
    }
}

fn end(parts: &mut [Part<'_>], is_end: bool) {
    if let Some(part) = parts.last_mut().filter(|_| is_end) {
        part.prompt_cache_breakpoint = Some(EXPLICIT);
    }
}

fn push_assistant<'a>(turn: &Turn<'a>, provider: &str, input: &mut Vec<Item<'a>>) {
    input.extend(turn.blocks.iter().filter_map(|block| {
        Some(match block {
            Block::Text { text, raw } => match raw.as_ref().and_then(|raw| own_raw(raw, provider)) {
                Some(raw) => Item::Raw(raw),
                None => Item::Plain(Plain::Message {
                    role: Role::Assistant.as_str(),
                    content: Content::Text(text),
                }),
            },
            Block::ToolUse { id, name, input, .. } => Item::Plain(Plain::FunctionCall {
                call_id: call_id(id, false),
                name: tool_name(name),
                arguments: input.to_string(),
            }),
            Block::Thinking { raw, .. } => Item::Raw(raw.as_ref().and_then(|raw| own_raw(raw, provider))?),
            Block::Opaque { raw } => Item::Raw(own_raw(raw, provider)?),
            Block::ToolResult { .. } | Block::Image(_) | Block::Document(_) => return None,
        })
    }));
}

#[cfg(test)]
mod tests;
