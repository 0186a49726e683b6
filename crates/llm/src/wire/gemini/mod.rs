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
use std::sync::Arc;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock, Role};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::conversation::{Shown, Turn, block_use, is_blank, turns};
use super::identifier::{call_id, letter_name};
use super::object::Object;
use super::tool_schema;
use crate::model::{Description, PDF, Request, thinking_tokens};
use crate::profile::{Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "gemini";

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Plain(Plain<'a>),
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: FunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    /// As the provider sent it.
    Raw(&'a RawValue),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Plain<'a> {
    Text(Cow<'a, str>),
    FunctionResponse(FunctionResponse<'a>),
    InlineData(InlineData<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    args: &'a Value,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    response: Response<'a>,
}

/// A tool result, in the fields that Gemini documents.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Response<'a> {
    Output(&'a str),
    Error(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters_json_schema: Arc<Value>,
}

/// Signature for tool calls made by another model; Gemini 3 rejects calls without one:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (tools, _) = request.tools_for(model, profile);
    let tools: Vec<_> = tools.iter().filter_map(declaration).collect();
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let enforces = enforces && (profile.schema_with_tools || tools.is_empty());
    let prompt_schema = request.answer_schema.filter(|_| !enforces);
    let enforced_schema = request.answer_schema.filter(|_| enforces);
    let system = request.system.iter().filter(|part| !is_blank(&part.text));
    let mut system: Vec<_> = system.map(|part| text(part.text.as_str())).collect();
    system.extend(prompt_schema.map(|form| text(tool_schema::instruction(form))));
    let system = (!system.is_empty()).then_some(Content { role: None, parts: system });
    let tools = (!tools.is_empty()).then_some([Tools { function_declarations: tools }]);
    let generation_config = Object::new()
        .with("maxOutputTokens", request.max_output_tokens)
        .nested("thinkingConfig", thinking_config(profile, request))
        .maybe("responseMimeType", enforced_schema.map(|_| "application/json"))
        .maybe("responseJsonSchema", enforced_schema.map(|form| form.schema))
        .maybe("temperature", profile.temperature_for(request))
        .maybe("topP", profile.top_p_for(request))
        .listed("stopSequences", profile.stop_for(request));
    Object::new()
        .maybe("systemInstruction", system)
        .with("contents", contents(model, profile, request))
        .maybe("tools", tools)
        .maybe("toolConfig", request.forced_tool(model).and_then(|name| tool_config(name, profile)))
        .nested("generationConfig", generation_config)
        .maybe("serviceTier", profile.tier_for(request))
        .end()
}

fn declaration(tool: &houston_domain::tool_call::ToolDefinition) -> Option<FunctionDeclaration<'_>> {
    let parameters_json_schema = tool_schema::GEMINI.parameters(tool)?;
    Some(FunctionDeclaration {
        name: letter_name(&tool.name),
        description: &tool.description,
        parameters_json_schema,
    })
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    Part::Plain(Plain::Text(text.into()))
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

fn contents<'a>(model: &Description, profile: &Profile, request: &Request<'a>) -> Vec<Content<'a>> {
    let mut contents = Vec::new();
    let mut calls: Vec<PendingCall<'a>> = Vec::new();
    for turn in
        turns(request.entries, |block| block_use(block, |raw| own_raw(raw, &model.provider).is_some()))
    {
        let (role, parts) = match turn.role {
            Role::User => ("user", user_parts(&turn, &calls, profile)),
            Role::Assistant => {
                calls.clear();
                ("model", model_parts(&turn, &model.provider, profile, &mut calls))
            }
        };
        contents.push(Content { role: Some(role), parts });
    }
    if let (Some(image), Some(last)) = (request.image, contents.last_mut()) {
        last.parts.insert(0, data(image.media_type, image.base64));
    }
    match (request.context(), contents.last_mut().filter(|last| last.role == Some("user"))) {
        (Some(context), Some(last)) => last.parts.push(text(context)),
        (Some(context), None) => contents.push(Content { role: Some("user"), parts: vec![text(context)] }),
        (None, _) => {}
    }
    contents
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
) -> Vec<Part<'a>> {
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
                    Some(raw) => raw.into_iter().map(Part::Raw).collect(),
                    None => vec![Part::Call {
                        function_call: FunctionCall {
                            id: call_id(id, false),
                            name: name.clone(),
                            args: input,
                        },
                        // Only the first of several parallel calls is signed.
                        thought_signature: (profile.thought_signatures && calls.is_empty())
                            .then_some(UNSIGNED),
                    }],
                });
                calls.push(PendingCall { id, sent_id, name });
            }
            Block::Text { text: content, .. } if raw.is_none() => parts.push(text(content.as_str())),
            _ => parts.extend(raw.into_iter().flatten().map(Part::Raw)),
        }
    }
    parts
}

/// Results must be in the order of their calls: without ids, the order is what assigns them.
fn user_parts<'a>(turn: &Turn<'a>, calls: &[PendingCall<'a>], profile: &Profile) -> Vec<Part<'a>> {
    let mut parts = Vec::with_capacity(turn.blocks.len());
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, is_error, .. } = block {
            let position = calls.iter().position(|call| call.id == tool_use_id);
            let call = position.map(|position| &calls[position]);
            let response = Plain::FunctionResponse(FunctionResponse {
                id: call.and_then(|call| call.sent_id.clone()),
                name: call.map_or(Cow::Borrowed("unnamed"), |call| call.name.clone()),
                response: if *is_error { Response::Error(content) } else { Response::Output(content) },
            });
            parts.push((position.unwrap_or(usize::MAX - 1), Part::Plain(response)));
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

fn data<'a>(mime_type: &'a str, data: &'a str) -> Part<'a> {
    Part::Plain(Plain::InlineData(InlineData { mime_type, data }))
}

#[cfg(test)]
mod tests;
