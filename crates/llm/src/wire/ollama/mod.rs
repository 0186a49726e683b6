//! Ollama's own chat API: one JSON object per line.
//!
//! Peculiarities: tool calls are sent as a whole, often without ids; arguments are objects in requests and answers;
//! tool results name their tool. Ollama silently truncates the beginning of a conversation that exceeds its context
//! window, so each request sets the window it needs.

pub(crate) mod stream;

use std::borrow::Cow;
use std::collections::HashMap;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, Role};
use serde::Serialize;
use serde_json::Value;

use super::conversation::{BlockUse, Turn, append_context, is_blank, turns, user_text};
use super::identifier::{call_id, tool_name};
use super::openai::FunctionTool;
use super::tool_schema;
use crate::model::{Description, Request};
use crate::profile::{Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks of reasoning.
const NAME: &str = "ollama";

/// Smallest and largest context window requested, in tokens. Ollama's own default was 4096 for long, too small for an
/// agent's prompt; it reduces values above the model's maximum.
const WINDOWS: std::ops::RangeInclusive<u64> = 8192..=262_144;

/// Bytes of request JSON per token, a low estimate: a window too large costs memory, one too small loses the
/// beginning of the conversation.
const BYTES_PER_TOKEN: u64 = 3;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FunctionTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<&'static str>,
    options: Options<'a>,
}

#[derive(Serialize)]
struct Options<'a> {
    num_predict: u32,
    num_ctx: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
}

#[derive(Default, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<Cow<'a, str>>,
    /// Ignored by servers before 2025-11.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: &'a Value,
}

/// The request body, as JSON. Without an effort `think` is omitted: models that can reason do so by default, and others
/// reject the field.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let effort = profile.effort_for(request).filter(|_| profile.thinking == Thinking::Think);
    let mut body = Body {
        model: &model.model,
        stream: true,
        messages: messages(model, request),
        tools: tools.iter().filter_map(|tool| FunctionTool::new(tool, &tool_schema::OLLAMA)).collect(),
        format: request.answer_schema.filter(|_| enforces).map(|answer| answer.schema),
        think: effort.map(Effort::as_str),
        options: Options {
            num_predict: request.max_output_tokens,
            num_ctx: *WINDOWS.start(),
            temperature: profile.temperature_for(request),
            top_p: profile.top_p_for(request),
            stop: profile.stop_for(request),
        },
    };
    // Cannot fail: all map keys are strings, and no `Serialize` implementation returns an error.
    let json = serde_json::to_vec(&body).unwrap_or_default();
    let window = window(json.len(), request.max_output_tokens);
    if window == *WINDOWS.start() {
        return json;
    }
    body.options.num_ctx = window;
    serde_json::to_vec(&body).unwrap_or_default()
}

/// Context window for the request and its answer, rounded up to a power of two: changing the window makes Ollama
/// reload the model.
fn window(bytes: usize, answer: u32) -> u64 {
    let needed = u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_TOKEN + u64::from(answer);
    needed.min(*WINDOWS.end()).next_power_of_two().max(*WINDOWS.start())
}

fn messages<'a>(model: &Description, request: &Request<'a>) -> Vec<Message<'a>> {
    let system = joined(request.system.iter().map(|part| part.text.as_str()).filter(|text| !is_blank(text)));
    let system =
        system.map(|content| Message { role: "system", content: content.into(), ..Message::default() });
    let mut messages: Vec<_> = system.into_iter().collect();
    let block_use = |block: &Block| match block {
        Block::Thinking { raw: Some(raw), .. } if raw.of(NAME, &model.provider).is_some() => {
            BlockUse::SendBeforeOthers
        }
        Block::Thinking { .. } | Block::Opaque { .. } => BlockUse::Drop,
        _ => BlockUse::Send,
    };
    // Maps call ids to tool names, for the results.
    let mut names: HashMap<&str, &str> = HashMap::new();
    for turn in turns(request.entries, block_use) {
        match turn.role {
            Role::User => push_user(&turn, &names, &mut messages),
            Role::Assistant => {
                let calls = turn.blocks.iter().filter_map(|block| match block {
                    Block::ToolUse { id, name, .. } => Some((id.as_str(), name.as_str())),
                    _ => None,
                });
                names.extend(calls);
                messages.push(assistant(&turn));
            }
        }
    }
    let said_last = messages.last_mut().filter(|last| matches!(last.role, "user" | "tool"));
    match (request.context_without_image(), said_last) {
        (Some(context), Some(last)) => append_context(&mut last.content, &context),
        (Some(context), None) => {
            messages.push(Message { role: "user", content: context, ..Message::default() });
        }
        (None, _) => {}
    }
    messages
}

/// Each tool result is a message of its own; the user's text follows as one message.
fn push_user<'a>(turn: &Turn<'a>, names: &HashMap<&str, &'a str>, messages: &mut Vec<Message<'a>>) {
    let mut texts = Vec::new();
    for block in &turn.blocks {
        match block {
            Block::ToolResult { tool_use_id, content, .. } => messages.push(Message {
                role: "tool",
                content: content.into(),
                tool_name: names.get(tool_use_id.as_str()).map(|name| tool_name(name)),
                tool_call_id: Some(call_id(tool_use_id, false)),
                ..Message::default()
            }),
            Block::Text { text, .. } => texts.push(user_text(text)),
            Block::Image(image) => texts.push(&image.unseen),
            Block::Document(document) => texts.push(&document.unread),
            _ => {}
        }
    }
    let text = joined(texts.into_iter());
    messages.extend(text.map(|text| Message { role: "user", content: text.into(), ..Message::default() }));
}

fn assistant<'a>(turn: &Turn<'a>) -> Message<'a> {
    let mut message = Message { role: "assistant", ..Message::default() };
    let texts = turn.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    message.content = joined(texts).unwrap_or_default().into();
    for block in &turn.blocks {
        match block {
            Block::ToolUse { id, name, input, .. } => message.tool_calls.push(ToolCall {
                id: call_id(id, false),
                function: Function { name: tool_name(name), arguments: input },
            }),
            // Reasoning of other providers was left out before.
            Block::Thinking { text, .. } => message.thinking = Some(text),
            _ => {}
        }
    }
    message
}

/// Joins texts with blank lines; `None` when there are none.
fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    texts.map(str::to_owned).reduce(|joined, text| joined + "\n\n" + &text)
}

#[cfg(test)]
mod tests;
