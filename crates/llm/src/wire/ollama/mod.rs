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

use super::conversation::{BlockUse, Turn, append_context, joined, system_text, texts, turns, user_texts};
use super::identifier::{call_id, tool_name};
use super::object::Object;
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
    let tools: Vec<_> =
        tools.iter().filter_map(|tool| FunctionTool::new(tool, &tool_schema::OLLAMA)).collect();
    let messages = messages(model, request);
    let in_window = |window: u64| {
        let options = Object::new()
            .with("num_predict", request.max_output_tokens)
            .with("num_ctx", window)
            .maybe("temperature", profile.temperature_for(request))
            .maybe("top_p", profile.top_p_for(request))
            .listed("stop", profile.stop_for(request));
        Object::new()
            .with("model", &model.model)
            .with("stream", true)
            .with("messages", &messages)
            .listed("tools", &tools)
            .maybe("format", request.answer_schema.filter(|_| enforces).map(|answer| answer.schema))
            .maybe("think", effort.map(Effort::as_str))
            .nested("options", options)
            .end()
    };
    let json = in_window(*WINDOWS.start());
    let window = window(json.len(), request.max_output_tokens);
    if window == *WINDOWS.start() { json } else { in_window(window) }
}

/// Context window for the request and its answer, rounded up to a power of two: changing the window makes Ollama
/// reload the model.
fn window(bytes: usize, answer: u32) -> u64 {
    let needed = u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_TOKEN + u64::from(answer);
    needed.min(*WINDOWS.end()).next_power_of_two().max(*WINDOWS.start())
}

fn messages<'a>(model: &Description, request: &Request<'a>) -> Vec<Message<'a>> {
    let system = system_text(request.system);
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
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, .. } = block {
            messages.push(Message {
                role: "tool",
                content: content.into(),
                tool_name: names.get(tool_use_id.as_str()).map(|name| tool_name(name)),
                tool_call_id: Some(call_id(tool_use_id, false)),
                ..Message::default()
            });
        }
    }
    let text = joined(user_texts(turn));
    messages.extend(text.map(|text| Message { role: "user", content: text.into(), ..Message::default() }));
}

fn assistant<'a>(turn: &Turn<'a>) -> Message<'a> {
    let content = joined(texts(turn)).unwrap_or_default().into();
    let mut message = Message { role: "assistant", content, ..Message::default() };
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

#[cfg(test)]
mod tests;
