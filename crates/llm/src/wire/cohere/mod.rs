//! Cohere Chat, version 2.
//!
//! Peculiarities: a plan before tool calls, which is treated as reasoning; citations, which are sent back unchanged;
//! and two usage counts: Houston uses the one of all tokens for the context, and `billed_units` for the cost.

pub(crate) mod stream;

use std::borrow::Cow;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock, Role};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use self::stream::Reasoning;
use super::conversation::{BlockUse, Turn, append_context, joined, system_text, turns, user_texts};
use super::identifier::call_id;
use super::object::Object;
use super::openai::{FunctionTool, ToolCall};
use super::tool_schema;
use crate::model::{Description, Request, thinking_tokens};
use crate::profile::{ForcedTool, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "cohere";

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System { content: String },
    User { content: Cow<'a, str> },
    Assistant(Assistant<'a>),
    Tool { tool_call_id: Cow<'a, str>, content: Cow<'a, str> },
}

#[derive(Default, Serialize)]
struct Assistant<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    content: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_plan: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    citations: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str },
}

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let tools: Vec<_> =
        tools.iter().filter_map(|tool| FunctionTool::new(tool, &tool_schema::COHERE)).collect();
    // The caller has described the schema as well.
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let enforces = enforces && (profile.schema_with_tools || tools.is_empty());
    let schema = request.answer_schema.filter(|_| enforces);
    let is_forced = request.forced_tool(model).is_some() && profile.forced_tool != ForcedTool::Auto;
    Object::new()
        .with("model", &model.model)
        .with("stream", true)
        .with("max_tokens", request.max_output_tokens)
        .with("messages", messages(model, request))
        .listed("tools", &tools)
        .maybe("tool_choice", is_forced.then_some("REQUIRED"))
        .maybe(
            "response_format",
            schema.map(|form| json!({"type": "json_object", "json_schema": form.schema})),
        )
        .maybe("temperature", profile.temperature_for(request))
        // Its name of `top_p`.
        .maybe("p", profile.top_p_for(request))
        .listed("stop_sequences", profile.stop_for(request))
        .nested("thinking", thinking(profile, request))
        .end()
}

fn thinking(profile: &Profile, request: &Request<'_>) -> Object {
    match profile.effort_for(request).filter(|_| profile.thinking == Thinking::Budget) {
        None => Object::new(),
        Some(Effort::None) => Object::new().with("type", "disabled"),
        Some(effort) => Object::new()
            .with("type", "enabled")
            .maybe("token_budget", thinking_tokens(effort, request.max_output_tokens)),
    }
}

fn messages<'a>(model: &Description, request: &Request<'a>) -> Vec<Message<'a>> {
    let system = system_text(request.system);
    let mut messages: Vec<_> = system.map(|content| Message::System { content }).into_iter().collect();
    let block_use = |block: &Block| match block {
        Block::Thinking { raw, .. } => {
            reasoning(raw.as_ref(), &model.provider).map_or(BlockUse::Drop, |_| BlockUse::SendBeforeOthers)
        }
        Block::Opaque { .. } => BlockUse::Drop,
        _ => BlockUse::Send,
    };
    for turn in turns(request.entries, block_use) {
        match turn.role {
            Role::User => push_user(&turn, &mut messages),
            Role::Assistant => messages.push(Message::Assistant(assistant(&turn, &model.provider))),
        }
    }
    match (request.context_without_image(), messages.last_mut()) {
        (Some(context), Some(Message::User { content } | Message::Tool { content, .. })) => {
            append_context(content, &context);
        }
        (Some(context), _) => messages.push(Message::User { content: context }),
        (None, _) => {}
    }
    messages
}

fn reasoning(raw: Option<&RawBlock>, provider: &str) -> Option<Reasoning> {
    serde_json::from_str(raw?.of(NAME, provider)?).ok()
}

/// Each tool result is a message of its own; the user's text follows as one message.
fn push_user<'a>(turn: &Turn<'a>, messages: &mut Vec<Message<'a>>) {
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, .. } = block {
            let tool_call_id = call_id(tool_use_id, false);
            messages.push(Message::Tool { tool_call_id, content: content.into() });
        }
    }
    messages.extend(joined(user_texts(turn)).map(|content| Message::User { content: content.into() }));
}

fn assistant<'a>(turn: &Turn<'a>, provider: &str) -> Assistant<'a> {
    let mut message = Assistant::default();
    for block in &turn.blocks {
        match block {
            Block::Text { text, raw } => {
                message.content.push(Content::Text { text });
                let citations = raw.as_ref().and_then(|raw| raw.of(NAME, provider));
                let citations = citations.and_then(|json| serde_json::from_str::<Vec<&RawValue>>(json).ok());
                message.citations.extend(citations.into_iter().flatten());
            }
            Block::ToolUse { id, name, input, .. } => {
                message.tool_calls.push(ToolCall::new(call_id(id, false), name, input));
            }
            Block::Thinking { text, raw } => match reasoning(raw.as_ref(), provider) {
                Some(Reasoning::Plan) => message.tool_plan = Some(text),
                Some(Reasoning::Thinking) => message.content.push(Content::Thinking { thinking: text }),
                None => {}
            },
            _ => {}
        }
    }
    // A plan is only valid together with tool calls.
    message.tool_plan = message.tool_plan.filter(|_| !message.tool_calls.is_empty());
    message
}

#[cfg(test)]
mod tests;
