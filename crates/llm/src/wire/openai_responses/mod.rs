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

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock, Role};
use houston_domain::tool_call::ToolDefinition;
use serde_json::json;

use super::conversation::{Shown, Turn, append_context, block_use, joined, own_json, system_text, turns};
use super::identifier::{call_id, tool_name};
use super::object::{Object, list};
use super::openai::{cache_options, retention};
use super::tool_schema;
use crate::model::{Description, Image, Request, data_url, document_url, openai_effort};
use crate::profile::{CacheControl, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "openai_responses";

fn text_part(text: &str) -> Object {
    Object::typed("input_text").with("text", text)
}

fn image_part(url: String) -> Object {
    Object::typed("input_image").with("image_url", url)
}

fn message(role: Role) -> Object {
    Object::typed("message").with("role", role)
}

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let (direct, deferred) = request.tools_for(model, profile);
    let has_tools = !direct.is_empty();
    // <https://developers.openai.com/api/docs/guides/tools-tool-search>
    let search = (!deferred.is_empty()).then(|| Object::typed("tool_search").end());
    let tools = direct.iter().filter_map(|tool| function(tool, false)).chain(search);
    let tools = tools.chain(deferred.iter().filter_map(|tool| function(tool, true)));
    let has_marks = profile.cache == CacheControl::Options && profile.lifetime(request).is_some();
    let mut input = Vec::new();
    let is_own = |raw: &RawBlock| own_json(raw, NAME, &model.provider).is_some();
    let turns = turns(request.entries, |block| block_use(block, is_own));
    let mut users = turns.iter().filter(|turn| turn.role == Role::User).count();
    let mut context = request.context();
    for (nth, turn) in turns.iter().enumerate() {
        if turn.role == Role::Assistant {
            push_assistant(turn, &model.provider, &mut input);
            continue;
        }
        let marks = has_marks.then_some(users <= MARKED_TURNS);
        users -= 1;
        let is_last = nth + 1 == turns.len();
        let last = if is_last { (request.image, context.take()) } else { Default::default() };
        push_user(turn, profile, marks, last, &mut input);
    }
    if let Some(text) = context {
        input.push(message(Role::User).json("content", list([text_part(text).end()])).end());
    }
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let enforces = enforces && (profile.schema_with_tools || !has_tools);
    let enforced_schema = request.answer_schema.filter(|_| enforces);
    let prompt_schema = request.answer_schema.filter(|_| !enforces).map(tool_schema::instruction);
    let instructions =
        joined(system_text(request.system).as_deref().into_iter().chain(prompt_schema.as_deref()));
    let choice =
        |name| profile.forced_tool.choice(json!({"type": "function", "name": name}), json!("required"));
    let format = enforced_schema.map_or_else(Object::new, |form| {
        tool_schema::named(Object::typed("json_schema"), form, profile.strict_schema)
    });
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
        .nested("prompt_cache_options", cache_options(profile, request, true))
        .maybe("service_tier", profile.tier_for(request))
        .maybe("instructions", instructions)
        .all("tools", tools)
        .maybe("tool_choice", request.forced_tool(model).and_then(choice))
        .maybe("temperature", profile.temperature_for(request))
        .maybe("top_p", profile.top_p_for(request))
        .maybe("reasoning", effort.map(|effort| json!({"effort": openai_effort(effort)})))
        .nested("text", Object::new().nested("format", format))
        .json("input", list(input))
        .end()
}

fn function(tool: &ToolDefinition, is_deferred: bool) -> Option<Vec<u8>> {
    let function = Object::typed("function").with("name", &tool.name).with("description", &tool.description);
    let function = function.with("parameters", tool_schema::RULES.openai.parameters(tool)?);
    // Always sent: the default is `true`, with which most schemas are rejected.
    Some(function.with("strict", false).maybe("defer_loading", is_deferred.then_some(true)).end())
}

fn effort(model: &Description, profile: &Profile, request: &Request<'_>) -> Option<Effort> {
    if request.is_unthinking(model, profile) {
        return Some(Effort::None);
    }
    let by_effort = matches!(profile.thinking, Thinking::Effort | Thinking::Reasoning);
    profile.effort_for(request).filter(|_| by_effort)
}

/// How many ends of what the user's side has said are marked: a request writes what is kept at the last one, and reads at the
/// one before what the previous request has written.
const MARKED_TURNS: usize = 2;

/// Each tool result is an item of its own; the user's text follows as one message, with images and PDFs if the model is sent
/// them. `marks`: whether the end of this turn is marked; `None`: no turn of the request is. Where any is, all results are sent as
/// parts, so that they stay the same in the next request, which marks other turns. (The provider alone would mark the end of the
/// request, which has the system context: no further request begins like that.) `last`: the image and the system context, if this
/// turn ends the request. The context is part of the last item, so that the next request starts with everything before it; as a
/// message of its own after a tool result it would look like the user's next turn.
fn push_user(
    turn: &Turn<'_>,
    profile: &Profile,
    marks: Option<bool>,
    (image, context): (Option<Image<'_>>, Option<&str>),
    input: &mut Vec<Vec<u8>>,
) {
    let mark = (marks == Some(true)).then(|| json!({"mode": "explicit"}));
    let end = |part: Object, is_end: bool| {
        part.maybe("prompt_cache_breakpoint", mark.as_ref().filter(|_| is_end)).end()
    };
    let context_part = || context.map(|context| text_part(context).end());
    let shown: Vec<_> = turn.blocks.iter().filter_map(|block| Shown::of(block, profile)).collect();
    let results = turn.blocks.iter().filter_map(|block| match block {
        Block::ToolResult { tool_use_id, content, .. } => Some((tool_use_id, content)),
        _ => None,
    });
    let mut results = results.peekable();
    while let Some((id, content)) = results.next() {
        let is_end = shown.is_empty() && results.peek().is_none();
        let item = Object::typed("function_call_output").with("call_id", call_id(id, false));
        let item = if marks.is_some() {
            let context = context_part().filter(|_| is_end);
            let parts = [end(text_part(content), is_end)].into_iter().chain(context);
            item.json("output", list(parts))
        } else {
            let mut output = Cow::Borrowed(content.as_str());
            context.iter().filter(|_| is_end).for_each(|context| append_context(&mut output, context));
            item.with("output", output)
        };
        input.push(item.end());
    }
    if shown.is_empty() {
        return;
    }
    let count = shown.len();
    let parts = shown.into_iter().enumerate().map(|(nth, shown)| {
        let part = match shown {
            Shown::Text(text) => text_part(text),
            Shown::Image(image) => image_part(data_url(image)),
            Shown::Document(document) => {
                let file = Object::typed("input_file").with("filename", &document.name);
                file.with("file_data", document_url(document))
            }
        };
        end(part, nth + 1 == count)
    });
    let image = image.map(|image| image_part(image.data_url()).end());
    let parts = parts.chain(image).chain(context_part());
    input.push(message(Role::User).json("content", list(parts)).end());
}

fn push_assistant(turn: &Turn<'_>, provider: &str, input: &mut Vec<Vec<u8>>) {
    let own = |raw: &RawBlock| own_json(raw, NAME, provider).map(|raw| raw.get().into());
    input.extend(turn.blocks.iter().filter_map(|block| match block {
        Block::Text { text, raw } => {
            let said = || message(Role::Assistant).with("content", text).end();
            raw.as_ref().and_then(own).or_else(|| Some(said()))
        }
        Block::ToolUse { id, name, input, .. } => {
            let call = Object::typed("function_call").with("call_id", call_id(id, false));
            Some(call.with("name", tool_name(name)).with("arguments", input.to_string()).end())
        }
        Block::Thinking { raw, .. } => raw.as_ref().and_then(own),
        Block::Opaque { raw } => own(raw),
        Block::ToolResult { .. } | Block::Image(_) | Block::Document(_) => None,
    }));
}

#[cfg(test)]
mod tests;
