//! Cohere Chat, version 2.
//!
//! Peculiarities: a plan before tool calls, which is treated as reasoning; citations, which are sent back unchanged;
//! and two usage counts: Houston uses the one of all tokens for the context, and `billed_units` for the cost.

pub(crate) mod stream;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock};
use serde_json::json;
use serde_json::value::RawValue;

use self::stream::Reasoning;
use super::conversation::{self, Message, Turn, system_text};
use super::identifier::call_id;
use super::object::{Object, list};
use super::openai::{function_tool, tool_call};
use super::tool_schema;
use crate::model::{Description, Request, thinking_tokens};
use crate::profile::{ForcedTool, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "cohere";

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let tools: Vec<_> =
        tools.iter().filter_map(|tool| function_tool(tool, &tool_schema::RULES.cohere)).collect();
    // The caller has described the schema as well.
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let enforces = enforces && (profile.schema_with_tools || tools.is_empty());
    let schema = request.answer_schema.filter(|_| enforces);
    let is_forced = request.forced_tool(model).is_some() && profile.forced_tool != ForcedTool::Auto;
    Object::new()
        .with("model", &model.model)
        .with("stream", true)
        .with("max_tokens", request.max_output_tokens)
        .json("messages", list(messages(model, request)))
        .all("tools", tools)
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

fn messages(model: &Description, request: &Request<'_>) -> Vec<Vec<u8>> {
    let of = |role: &str| Object::new().with("role", role);
    let system = system_text(request.system).map(|content| of("system").with("content", content).end());
    let is_own = |raw: &RawBlock| reasoning(raw, &model.provider).is_some();
    let said = conversation::messages(request.entries, request.context_without_image(), is_own);
    let said = said.into_iter().map(|message| match message {
        Message::User { text, .. } => of("user").with("content", text).end(),
        Message::Result { id, text } => {
            of("tool").with("tool_call_id", call_id(id, false)).with("content", text).end()
        }
        Message::Assistant(turn) => assistant(&turn, &model.provider, of("assistant")),
    });
    system.into_iter().chain(said).collect()
}

fn reasoning(raw: &RawBlock, provider: &str) -> Option<Reasoning> {
    serde_json::from_str(raw.of(NAME, provider)?).ok()
}

fn assistant(turn: &Turn<'_>, provider: &str, message: Object) -> Vec<u8> {
    let (mut content, mut plan, mut calls) = (Vec::new(), None, Vec::new());
    let mut citations: Vec<&RawValue> = Vec::new();
    for block in &turn.blocks {
        match block {
            Block::Text { text, raw } => {
                content.push(Object::typed("text").with("text", text).end());
                let cited = raw.as_ref().and_then(|raw| raw.of(NAME, provider));
                let cited = cited.and_then(|json| serde_json::from_str::<Vec<&RawValue>>(json).ok());
                citations.extend(cited.into_iter().flatten());
            }
            Block::ToolUse { id, name, input, .. } => {
                calls.push(tool_call(&call_id(id, false), name, input, None));
            }
            Block::Thinking { text, raw: Some(raw) } => match reasoning(raw, provider) {
                Some(Reasoning::Plan) => plan = Some(text),
                Some(Reasoning::Thinking) => {
                    content.push(Object::typed("thinking").with("thinking", text).end());
                }
                None => {}
            },
            _ => {}
        }
    }
    // A plan is only valid together with tool calls.
    let plan = plan.filter(|_| !calls.is_empty());
    let message = message.all("content", content).maybe("tool_plan", plan).all("tool_calls", calls);
    message.listed("citations", &citations).end()
}

#[cfg(test)]
mod tests;
