//! Google Gemini. A stream consists of chunks of parts; a part is a text, a thought, or a complete tool call.
//!
//! A signed part must be sent back unchanged and separately: Gemini 3 rejects its own tool call without the
//! signature. So blocks with signed parts are stored as the provider sent them ([`RawBlock`]): a text as the list of
//! its parts, a call as its part.
//!
//! The stream has no end mark. A finish reason may even come in the middle, before the results of code executed by
//! the provider. So an answer is complete when the connection ends after a finish reason.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod stream;

use std::borrow::Cow;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock, Role};
use houston_domain::tool_call::ToolDefinition;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::conversation::{Shown, Turn, block_use, is_blank, turns};
use super::identifier::{call_id, letter_name};
use super::object::{Object, list};
use super::tool_schema;
use crate::model::{Description, PDF, Request, thinking_tokens};
use crate::profile::{Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "gemini";

/// Signature for tool calls made by another model; Gemini 3 rejects calls without one:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let tools: Vec<_> = tools.iter().filter_map(declaration).collect();
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let has_tools = !tools.is_empty();
    let enforces = enforces && (profile.schema_with_tools || !has_tools);
    let prompt_schema = request.answer_schema.filter(|_| !enforces);
    let enforced_schema = request.answer_schema.filter(|_| enforces);
    let system = request.system.iter().filter(|part| !is_blank(&part.text)).map(|part| text(&part.text));
    let instruction = prompt_schema.map(|form| text(&tool_schema::instruction(form)));
    let tools = has_tools.then(|| Object::new().json("functionDeclarations", list(tools)).end());
    let generation_config = Object::new()
        .with("maxOutputTokens", request.max_output_tokens)
        .nested("thinkingConfig", thinking_config(profile, request))
        .maybe("responseMimeType", enforced_schema.map(|_| "application/json"))
        .maybe("responseJsonSchema", enforced_schema.map(|form| form.schema))
        .maybe("temperature", profile.temperature_for(request))
        .maybe("topP", profile.top_p_for(request))
        .listed("stopSequences", profile.stop_for(request));
    Object::new()
        .nested("systemInstruction", Object::new().all("parts", system.chain(instruction)))
        .json("contents", list(contents(model, profile, request)))
        .all("tools", tools)
        .maybe("toolConfig", request.forced_tool(model).and_then(|name| tool_config(name, profile)))
        .nested("generationConfig", generation_config)
        .maybe("serviceTier", profile.tier_for(request))
        .end()
}

fn declaration(tool: &ToolDefinition) -> Option<Vec<u8>> {
    let parameters = tool_schema::RULES.gemini.parameters(tool)?;
    let named = Object::new().with("name", letter_name(&tool.name)).with("description", &tool.description);
    Some(named.with("parametersJsonSchema", parameters).end())
}

fn text(text: &str) -> Vec<u8> {
    Object::new().with("text", text).end()
}

fn tool_config(name: &str, profile: &Profile) -> Option<Value> {
    let this = json!({"mode": "ANY", "allowedFunctionNames": [letter_name(name)]});
    let calling = profile.forced_tool.choice(this, json!({"mode": "ANY"}))?;
    Some(json!({"functionCallingConfig": calling}))
}

fn thinking_config(profile: &Profile, request: &Request<'_>) -> Object {
    let effort = |way| profile.effort_for(request).filter(|_| profile.thinking == way);
    let tokens = |effort| thinking_tokens(effort, request.max_output_tokens);
    Object::new()
        .maybe("includeThoughts", profile.include_thoughts.then_some(true))
        .maybe("thinkingLevel", effort(Thinking::Level).map(Effort::as_str))
        .maybe("thinkingBudget", effort(Thinking::Budget).and_then(tokens))
}

/// The parts a block was received in: one for a call, possibly several for a text.
fn own_raw<'a>(raw: &'a RawBlock, provider: &str) -> Option<Vec<&'a RawValue>> {
    let json = raw.of(NAME, provider)?;
    serde_json::from_str(json).or_else(|_| serde_json::from_str(json).map(|part| vec![part])).ok()
}

fn contents(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<Vec<u8>> {
    let mut contents: Vec<(&str, Vec<Vec<u8>>)> = Vec::new();
    let mut calls: Vec<PendingCall<'_>> = Vec::new();
    for turn in
        turns(request.entries, |block| block_use(block, |raw| own_raw(raw, &model.provider).is_some()))
    {
        contents.push(match turn.role {
            Role::User => ("user", user_parts(&turn, &calls, profile)),
            Role::Assistant => {
                calls.clear();
                ("model", model_parts(&turn, &model.provider, profile, &mut calls))
            }
        });
    }
    if let (Some(image), Some((_, parts))) = (request.image, contents.last_mut()) {
        parts.insert(0, data(image.media_type, image.base64));
    }
    match (request.context(), contents.last_mut().filter(|(role, _)| *role == "user")) {
        (Some(context), Some((_, parts))) => parts.push(text(context)),
        (Some(context), None) => contents.push(("user", vec![text(context)])),
        (None, _) => {}
    }
    let written = contents.into_iter();
    written.map(|(role, parts)| Object::new().with("role", role).json("parts", list(parts)).end()).collect()
}

/// A tool call that the next results answer.
struct PendingCall<'a> {
    /// The call's id in the history.
    id: &'a str,
    /// The id sent to the provider, if any.
    sent_id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
}

/// The fields of a raw call that its result needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCall<'a> {
    #[serde(borrow)]
    function_call: RawCallId<'a>,
}

#[derive(Deserialize)]
struct RawCallId<'a> {
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
}

fn model_parts<'a>(
    turn: &Turn<'a>,
    provider: &str,
    profile: &Profile,
    calls: &mut Vec<PendingCall<'a>>,
) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    for block in &turn.blocks {
        let raw = match block {
            Block::Text { raw, .. } | Block::ToolUse { raw, .. } | Block::Thinking { raw, .. } => {
                raw.as_ref()
            }
            Block::Opaque { raw } => Some(raw),
            Block::ToolResult { .. } | Block::Image(_) | Block::Document(_) => None,
        };
        let raw = raw.and_then(|raw| own_raw(raw, provider));
        match block {
            Block::ToolUse { id, name, input, .. } => {
                let name = letter_name(name);
                let own_raw =
                    raw.as_ref().and_then(|raw| serde_json::from_str::<RawCall<'_>>(raw.first()?.get()).ok());
                let sent_id =
                    own_raw.map_or_else(|| Some(call_id(id, false)), |own_raw| own_raw.function_call.id);
                parts.extend(match raw {
                    Some(raw) => sent(raw),
                    None => {
                        let call = Object::new().with("id", call_id(id, false)).with("name", &name);
                        let call = Object::new().nested("functionCall", call.with("args", input));
                        // Only the first of several parallel calls is signed.
                        let is_signed = profile.thought_signatures && calls.is_empty();
                        vec![call.maybe("thoughtSignature", is_signed.then_some(UNSIGNED)).end()]
                    }
                });
                calls.push(PendingCall { id, sent_id, name });
            }
            Block::Text { text: content, .. } if raw.is_none() => parts.push(text(content)),
            _ => parts.extend(raw.map(sent).into_iter().flatten()),
        }
    }
    parts
}

/// Parts as the provider sent them.
fn sent(raw: Vec<&RawValue>) -> Vec<Vec<u8>> {
    raw.into_iter().map(|part| part.get().into()).collect()
}

/// Results must be in the order of their calls: without ids, the order is what assigns them.
fn user_parts(turn: &Turn<'_>, calls: &[PendingCall<'_>], profile: &Profile) -> Vec<Vec<u8>> {
    let mut parts = Vec::with_capacity(turn.blocks.len());
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, is_error, .. } = block {
            let position = calls.iter().position(|call| call.id == tool_use_id);
            let call = position.map(|position| &calls[position]);
            // A tool result, in the fields that Gemini documents.
            let response = Object::new().with(if *is_error { "error" } else { "output" }, content);
            let response = Object::new()
                .maybe("id", call.and_then(|call| call.sent_id.as_ref()))
                .with("name", call.map_or("unnamed", |call| &call.name))
                .nested("response", response);
            let part = Object::new().nested("functionResponse", response).end();
            parts.push((position.unwrap_or(usize::MAX - 1), part));
        }
        let shown = Shown::of(block, profile).map(|shown| match shown {
            Shown::Text(said) => text(said),
            Shown::Image(image) => data(image.header.image_type.as_str(), &image.base64),
            Shown::Document(document) => data(PDF, &document.base64),
        });
        parts.extend(shown.map(|part| (usize::MAX, part)));
    }
    parts.sort_by_key(|(position, _)| *position);
    parts.into_iter().map(|(_, part)| part).collect()
}

fn data(mime_type: &str, data: &str) -> Vec<u8> {
    let data = Object::new().with("mimeType", mime_type).with("data", data);
    Object::new().nested("inlineData", data).end()
}

#[cfg(test)]
mod tests;
