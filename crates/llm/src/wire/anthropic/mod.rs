//! Anthropic Messages. An answer is a list of typed blocks, each opened, continued and closed by its index.
//!
//! Reasoning is signed and must be sent back byte for byte. So blocks other than plain text and tool calls are stored
//! as the provider sent them ([`RawBlock`]), including citations and the results of server-side tools.
//!
//! [`RawBlock`]: houston_domain::history::RawBlock

pub(crate) mod stream;

use houston_domain::answering::Effort;
use houston_domain::history::{Block, RawBlock, Role};
use houston_domain::tool_call::ToolDefinition;
use serde_json::{Value, json};

use super::conversation::{Shown, block_use, is_blank, own_json, turns};
use super::identifier::{call_id, tool_name};
use super::object::{Object, list};
use super::tool_schema;
use crate::cache::Lifetime;
use crate::model::{Description, PDF, Request, thinking_tokens};
use crate::profile::{CacheControl as Caching, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "anthropic";

/// API version this was written for: <https://docs.anthropic.com/en/api/versioning>.
pub(crate) const VERSION: &str = "2023-06-01";

/// Number of user turns that end with a cache mark: a call writes the cache at the last one, and reads at the one
/// before what the previous call wrote. Together with the two marks of the system prompt these are the four marks
/// allowed.
const MARKED_TURNS: usize = 2;

/// The request body, as JSON. The end of the last cached system part is marked, which includes the tools, as they
/// precede the system prompt. The end of the first cached part, which conversations share, is marked as well. If any
/// part is cached or a cache key is set, further calls will follow, so the history is marked, too.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let lifetime = profile.lifetime(request).filter(|_| profile.cache == Caching::Marks);
    // All marks of a request are the same: longer times must precede shorter ones.
    let mark = lifetime.map(|kept| match kept {
        Lifetime::Long => json!({"type": "ephemeral", "ttl": "1h"}),
        Lifetime::Short => json!({"type": "ephemeral"}),
    });
    let mark = mark.as_ref();
    let parts: Vec<_> = request.system.iter().filter(|part| !is_blank(&part.text)).collect();
    let last = parts.iter().rposition(|part| mark.is_some() && part.cached);
    let first = parts.iter().position(|part| mark.is_some() && part.cached);
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let enforced_schema = request.answer_schema.filter(|_| enforces);
    let prompt_schema = request.answer_schema.filter(|_| enforced_schema.is_none());
    let system = parts.iter().enumerate().map(|(index, part)| {
        let mark = mark.filter(|_| [first, last].contains(&Some(index)));
        text(&part.text).maybe("cache_control", mark).end()
    });
    let (direct, deferred) = request.tools_for(model, profile);
    let search = || json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"});
    let search = (!deferred.is_empty()).then(|| search().to_string().into_bytes());
    let tools = direct.iter().filter_map(|tool| own_tool(tool, false)).chain(search);
    let tools = tools.chain(deferred.iter().filter_map(|tool| own_tool(tool, true)));
    let mut messages: Vec<(Role, Vec<Vec<u8>>)> = Vec::new();
    let is_own = |raw: &RawBlock| own_json(raw, NAME, &model.provider).is_some();
    let turns = turns(request.entries, |block| block_use(block, is_own));
    let mut users = turns.iter().filter(|turn| turn.role == Role::User).count();
    for turn in turns {
        let is_marked = turn.role == Role::User && users <= MARKED_TURNS;
        users -= usize::from(turn.role == Role::User);
        let end = turn.blocks.len() - 1;
        let content = turn.blocks.iter().enumerate().filter_map(|(nth, block)| {
            let mark = mark.filter(|_| is_marked && nth == end);
            content(turn.role, block, &model.provider, profile, mark)
        });
        messages.push((turn.role, content.collect()));
    }
    if let (Some(image), Some((_, content))) = (request.image, messages.last_mut()) {
        content.insert(0, image_part(image.media_type, image.base64).end());
    }
    // After the last mark, because the next request does not contain it.
    if let Some(context) = request.context().map(|context| text(context).end()) {
        match messages.last_mut().filter(|(role, _)| *role == Role::User) {
            Some((_, content)) => content.push(context),
            None => messages.push((Role::User, vec![context])),
        }
    }
    let messages = messages
        .into_iter()
        .map(|(role, content)| Object::new().with("role", role).json("content", list(content)).end());
    let choice =
        |name| profile.forced_tool.choice(json!({"type": "tool", "name": name}), json!({"type": "any"}));
    let tool_choice = request.forced_tool(model).and_then(choice);
    let format = enforced_schema.map(
        |form| json!({"type": "json_schema", "schema": tool_schema::RULES.anthropic_answers.written(form.schema)}),
    );
    // A tool cannot be forced while the model thinks.
    let thinking = thinking(profile, request).filter(|_| tool_choice.is_none());
    let by_effort = profile.thinking == Thinking::Adaptive;
    let effort = profile.effort_for(request).filter(|_| by_effort).map(Effort::as_str);
    let instruction = prompt_schema.map(|form| text(&tool_schema::instruction(form)).end());
    Object::new()
        .with("model", &model.model)
        .with("max_tokens", request.max_output_tokens)
        .with("stream", true)
        .all("system", system.chain(instruction))
        .all("tools", tools)
        .maybe("tool_choice", tool_choice)
        .nested("output_config", Object::new().maybe("effort", effort).maybe("format", format))
        .maybe("thinking", thinking)
        .maybe("temperature", profile.temperature_for(request))
        .maybe("top_p", profile.top_p_for(request))
        .listed("stop_sequences", profile.stop_for(request))
        .json("messages", list(messages))
        .end()
}

fn own_tool(tool: &ToolDefinition, is_deferred: bool) -> Option<Vec<u8>> {
    let own = Object::new().with("name", &tool.name).with("description", &tool.description);
    let own = own.with("input_schema", tool_schema::RULES.anthropic.parameters(tool)?);
    Some(own.maybe("defer_loading", is_deferred.then_some(true)).end())
}

/// How much the model is to think, if that is asked for.
fn thinking(profile: &Profile, request: &Request<'_>) -> Option<Value> {
    let effort = profile.effort_for(request)?;
    match profile.thinking {
        Thinking::Adaptive => Some(json!({"type": "adaptive"})),
        Thinking::Budget => {
            let tokens = thinking_tokens(effort, request.max_output_tokens).filter(|tokens| *tokens > 0)?;
            Some(json!({"type": "enabled", "budget_tokens": tokens}))
        }
        _ => None,
    }
}

fn text(text: &str) -> Object {
    Object::typed("text").with("text", text)
}

fn source(media_type: &str, data: &str) -> Object {
    Object::typed("base64").with("media_type", media_type).with("data", data)
}

fn image_part(media_type: &str, data: &str) -> Object {
    Object::typed("image").nested("source", source(media_type, data))
}

/// A block of a message, with a mark if it ends a turn that has one.
fn content(
    role: Role,
    block: &Block,
    provider: &str,
    profile: &Profile,
    mark: Option<&Value>,
) -> Option<Vec<u8>> {
    let own = |raw: &RawBlock| own_json(raw, NAME, provider).map(|raw| raw.get().into());
    let content = match block {
        Block::Text { text: said, raw } if role == Role::Assistant => {
            return raw.as_ref().and_then(own).or_else(|| Some(text(said).end()));
        }
        Block::ToolUse { id, name, input, .. } => {
            let call = Object::typed("tool_use").with("id", call_id(id, false));
            return Some(call.with("name", tool_name(name)).with("input", input).end());
        }
        Block::Thinking { raw, .. } => return raw.as_ref().and_then(own),
        Block::Opaque { raw } => return own(raw),
        Block::ToolResult { tool_use_id, content, is_error, .. } => {
            let result = Object::typed("tool_result").with("tool_use_id", call_id(tool_use_id, false));
            result.with("content", content).maybe("is_error", is_error.then_some(true))
        }
        block => match Shown::of(block, profile)? {
            Shown::Text(said) => text(said),
            Shown::Image(image) => image_part(image.header.image_type.as_str(), &image.base64),
            Shown::Document(document) => {
                let page = Object::typed("document").nested("source", source(PDF, &document.base64));
                page.with("title", &document.name)
            }
        },
    };
    Some(content.maybe("cache_control", mark).end())
}

#[cfg(test)]
mod tests;
