//! Ollama's own chat API: one JSON object per line.
//!
//! Peculiarities: tool calls are sent as a whole, often without ids; arguments are objects in requests and answers;
//! tool results name their tool. Ollama silently truncates the beginning of a conversation that exceeds its context
//! window, so each request sets the window it needs.

pub(crate) mod stream;

use std::collections::HashMap;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock};

use super::conversation::{self, Message, joined, system_text, texts};
use super::identifier::{call_id, tool_name};
use super::object::{Object, list};
use super::openai::function_tool;
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

/// The request body, as JSON. Without an effort `think` is omitted: models that can reason do so by default, and others
/// reject the field.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let effort = profile.effort_for(request).filter(|_| profile.thinking == Thinking::Think);
    let tools: Vec<_> =
        tools.iter().filter_map(|tool| function_tool(tool, &tool_schema::RULES.ollama)).collect();
    let messages = list(messages(model, request));
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
            .json("messages", messages.clone())
            .all("tools", tools.clone())
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

fn messages(model: &Description, request: &Request<'_>) -> Vec<Vec<u8>> {
    let of = |role: &str, content: &str| Object::new().with("role", role).with("content", content);
    let system = system_text(request.system).map(|content| of("system", &content).end());
    let mut messages: Vec<_> = system.into_iter().collect();
    // Maps call ids to tool names, for the results.
    let mut names: HashMap<&str, &str> = HashMap::new();
    let is_own = |raw: &RawBlock| raw.of(NAME, &model.provider).is_some();
    for message in conversation::messages(request.entries, request.context_without_image(), is_own) {
        let message = match message {
            Message::User { text, .. } => of("user", &text),
            Message::Result { id, text } => {
                let name = names.get(id).map(|name| tool_name(name));
                // The id is ignored by servers before 2025-11.
                of("tool", &text).maybe("tool_name", name).with("tool_call_id", call_id(id, false))
            }
            Message::Assistant(turn) => {
                let (mut thinking, mut calls) = (None, Vec::new());
                for block in &turn.blocks {
                    match block {
                        Block::ToolUse { id, name, input, .. } => {
                            names.insert(id, name);
                            let function =
                                Object::new().with("name", tool_name(name)).with("arguments", input);
                            let call = Object::new().with("id", call_id(id, false));
                            calls.push(call.nested("function", function).end());
                        }
                        // Reasoning of other providers was left out before.
                        Block::Thinking { text, .. } => thinking = Some(text),
                        _ => {}
                    }
                }
                let message = of("assistant", &joined(texts(&turn)).unwrap_or_default());
                message.maybe("thinking", thinking).all("tool_calls", calls)
            }
        };
        messages.push(message.end());
    }
    messages
}

#[cfg(test)]
mod tests;
