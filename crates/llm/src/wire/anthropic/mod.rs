//! Anthropic Messages. An answer is a list of typed blocks, each opened, continued and closed by its index.
//!
//! Reasoning is signed and must be sent back byte for byte. So blocks other than plain text and tool calls are stored
//! as the provider sent them ([`RawBlock`]), including citations and the results of server-side tools.
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

use super::conversation::{Shown, Turn, block_use, is_blank, turns};
use super::identifier::{call_id, tool_name};
use super::object::Object;
use super::tool_schema;
use crate::cache::Lifetime;
use crate::model::{Description, PDF, Request, thinking_tokens};
use crate::profile::{CacheControl as Caching, Profile, SchemaSupport, Thinking};

/// The wire's name in raw blocks.
const NAME: &str = "anthropic";

/// API version this was written for: <https://docs.anthropic.com/en/api/versioning>.
pub(crate) const VERSION: &str = "2023-06-01";

#[derive(Serialize)]
struct SystemBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Arc<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    defer_loading: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyTool<'a> {
    Own(Tool<'a>),
    /// The provider's search for deferred tools:
    /// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>.
    Search(Value),
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Plain(Plain<'a>),
    /// As the provider sent it.
    Raw(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Plain<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: &'a Value,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: ImageSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Document {
        source: ImageSource<'a>,
        title: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

#[derive(Serialize)]
struct ImageSource<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

/// Cached for five minutes after each use.
const FIVE_MINUTES: CacheControl = CacheControl { kind: "ephemeral", ttl: None };

/// Cached for an hour after each use. All marks of a request are the same: longer times must precede shorter ones.
const ONE_HOUR: CacheControl = CacheControl { kind: "ephemeral", ttl: Some("1h") };

/// Number of user turns that end with a cache mark: a call writes the cache at the last one, and reads at the one
/// before what the previous call wrote. Together with the two marks of the system prompt these are the four marks
/// allowed.
const MARKED_TURNS: usize = 2;

/// The request body, as JSON. The end of the last cached system part is marked, which includes the tools, as they
/// precede the system prompt. The end of the first cached part, which conversations share, is marked as well. If any
/// part is cached or a cache key is set, further calls will follow, so the history is marked, too.
pub(crate) fn encode(model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
    let lifetime = profile.lifetime(request).filter(|_| profile.cache == Caching::Marks);
    let mark = lifetime.map(|kept| if kept == Lifetime::Long { ONE_HOUR } else { FIVE_MINUTES });
    let parts: Vec<_> = request.system.iter().filter(|part| !is_blank(&part.text)).collect();
    let last = parts.iter().rposition(|part| mark.is_some() && part.cached);
    let first = parts.iter().position(|part| mark.is_some() && part.cached);
    let enforces = profile.result_schema == SchemaSupport::JsonSchema;
    let enforced_schema = request.answer_schema.filter(|_| enforces);
    let prompt_schema = request.answer_schema.filter(|_| enforced_schema.is_none());
    let block = |text, cache_control| SystemBlock { kind: "text", text, cache_control };
    let system = parts.iter().enumerate().map(|(index, part)| {
        block(Cow::Borrowed(part.text.as_str()), mark.filter(|_| [first, last].contains(&Some(index))))
    });
    let (direct, deferred) = request.tools_for(model, profile);
    let search = || json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"});
    let search = (!deferred.is_empty()).then(|| AnyTool::Search(search()));
    let tools = direct.iter().filter_map(|tool| own_tool(tool, false)).chain(search);
    let tools: Vec<_> = tools.chain(deferred.iter().filter_map(|tool| own_tool(tool, true))).collect();
    let turns =
        turns(request.entries, |block| block_use(block, |raw| own_raw(raw, &model.provider).is_some()));
    let mut messages: Vec<_> = turns.iter().map(|turn| message(turn, &model.provider, profile)).collect();
    if let Some(mark) = mark {
        let of_user = messages.iter_mut().rev().filter(|message| message.role == Role::User.as_str());
        of_user.take(MARKED_TURNS).for_each(|message| message.mark(mark));
    }
    if let (Some(image), Some(last)) = (request.image, messages.last_mut()) {
        last.content.insert(0, image_part(image.media_type, image.base64));
    }
    // After the last mark, because the next request does not contain it.
    if let Some(text) = request.context() {
        let context = Content::Plain(Plain::Text { text, cache_control: None });
        match messages.last_mut().filter(|last| last.role == Role::User.as_str()) {
            Some(last) => last.content.push(context),
            None => messages.push(Message { role: Role::User.as_str(), content: vec![context] }),
        }
    }
    let choice =
        |name| profile.forced_tool.choice(json!({"type": "tool", "name": name}), json!({"type": "any"}));
    let tool_choice = request.forced_tool(model).and_then(choice);
    let format = enforced_schema.map(
        |form| json!({"type": "json_schema", "schema": tool_schema::ANTHROPIC_ANSWERS.written(form.schema)}),
    );
    // A tool cannot be forced while the model thinks.
    let thinking = thinking(profile, request).filter(|_| tool_choice.is_none());
    let by_effort = profile.thinking == Thinking::Adaptive;
    let effort = profile.effort_for(request).filter(|_| by_effort).map(Effort::as_str);
    let instruction = prompt_schema.map(|form| block(tool_schema::instruction(form).into(), None));
    Object::new()
        .with("model", &model.model)
        .with("max_tokens", request.max_output_tokens)
        .with("stream", true)
        .listed("system", &system.chain(instruction).collect::<Vec<_>>())
        .listed("tools", &tools)
        .maybe("tool_choice", tool_choice)
        .nested("output_config", Object::new().maybe("effort", effort).maybe("format", format))
        .maybe("thinking", thinking)
        .maybe("temperature", profile.temperature_for(request))
        .maybe("top_p", profile.top_p_for(request))
        .listed("stop_sequences", profile.stop_for(request))
        .with("messages", messages)
        .end()
}

fn own_tool(tool: &ToolDefinition, defer_loading: bool) -> Option<AnyTool<'_>> {
    let ToolDefinition { name, description, .. } = tool;
    let input_schema = tool_schema::ANTHROPIC.parameters(tool)?;
    Some(AnyTool::Own(Tool { name, description, input_schema, defer_loading }))
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

impl Message<'_> {
    /// Sets a cache mark at the end of this message.
    fn mark(&mut self, mark: CacheControl) {
        if let Some(Content::Plain(
            Plain::Text { cache_control, .. }
            | Plain::ToolResult { cache_control, .. }
            | Plain::Image { cache_control, .. }
            | Plain::Document { cache_control, .. },
        )) = self.content.last_mut()
        {
            *cache_control = Some(mark);
        }
    }
}

/// A raw block, if this provider wrote it.
fn own_raw<'a>(raw: &'a RawBlock, provider: &str) -> Option<&'a RawValue> {
    serde_json::from_str(raw.of(NAME, provider)?).ok()
}

fn image_part<'a>(media_type: &'a str, data: &'a str) -> Content<'a> {
    let source = ImageSource { kind: "base64", media_type, data };
    Content::Plain(Plain::Image { source, cache_control: None })
}

fn message<'a>(turn: &Turn<'a>, provider: &str, profile: &Profile) -> Message<'a> {
    let content = turn.blocks.iter().filter_map(|block| content(turn.role, block, provider, profile));
    Message { role: turn.role.as_str(), content: content.collect() }
}

fn content<'a>(role: Role, block: &'a Block, provider: &str, profile: &Profile) -> Option<Content<'a>> {
    let text = |text| Content::Plain(Plain::Text { text, cache_control: None });
    Some(match block {
        Block::Text { text: said, raw } if role == Role::Assistant => {
            raw.as_ref().and_then(|raw| own_raw(raw, provider)).map_or_else(|| text(said), Content::Raw)
        }
        Block::ToolUse { id, name, input, .. } => {
            Content::Plain(Plain::ToolUse { id: call_id(id, false), name: tool_name(name), input })
        }
        Block::ToolResult { tool_use_id, content, is_error, .. } => Content::Plain(Plain::ToolResult {
            tool_use_id: call_id(tool_use_id, false),
            content,
            is_error: *is_error,
            cache_control: None,
        }),
        Block::Thinking { raw, .. } => Content::Raw(raw.as_ref().and_then(|raw| own_raw(raw, provider))?),
        Block::Opaque { raw } => Content::Raw(own_raw(raw, provider)?),
        block => match Shown::of(block, profile)? {
            Shown::Text(said) => text(said),
            Shown::Image(image) => image_part(image.header.image_type.as_str(), &image.base64),
            Shown::Document(document) => {
                let source = ImageSource { kind: "base64", media_type: PDF, data: &document.base64 };
                Content::Plain(Plain::Document { source, title: &document.name, cache_control: None })
            }
        },
    })
}

#[cfg(test)]
mod tests;
