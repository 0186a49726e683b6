//! Encodes requests for OpenAI-compatible servers.

use std::borrow::Cow;

use houston_domain::history::{Block, RawBlock, Role};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::conversation::{
    BlockUse, Turn, append_context, joined, system_text, turns, user_text, user_texts,
};
use super::super::function::{FunctionChoice, FunctionTool};
use super::super::identifier::{call_id, tool_name};
use super::super::schema::{self, NamedSchema};
use super::super::tool_schema;
use super::super::{Dialect, SchemaSupport};
use super::NAME;
use crate::model::{Description, Request, data_url, document_url, sees, takes_documents};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FunctionTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<FunctionChoice<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: NamedSchema<'a> },
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: String,
    },
    User {
        content: Cow<'a, str>,
    },
    #[serde(rename = "user")]
    Seeing {
        content: Vec<ContentPart<'a>>,
    },
    Assistant(Assistant<'a>),
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    /// A `data:` URL.
    file_data: String,
}

#[derive(Serialize)]
struct ImageUrl {
    /// A `data:` URL.
    url: String,
}

#[derive(Default, Serialize)]
struct Assistant<'a> {
    /// `null` if there are only tool calls.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    /// A JSON object, encoded as a string.
    arguments: String,
}

/// The request body, as JSON.
pub(crate) fn encode(model: &Description, dialect: Dialect, request: &Request<'_>) -> Vec<u8> {
    let limit = request.max_output_tokens;
    let tools = request.tools.iter().filter(|_| model.supports_tools);
    let tools = tools.filter_map(|tool| FunctionTool::new(tool, &tool_schema::OPENAI));
    let body = Body {
        model: &model.model,
        stream: true,
        stream_options: dialect.stream_options.then_some(StreamOptions { include_usage: true }),
        max_tokens: (!dialect.max_completion_tokens).then_some(limit),
        max_completion_tokens: dialect.max_completion_tokens.then_some(limit),
        prompt_cache_key: request.cache_key.filter(|_| dialect.prompt_cache_key),
        response_format: request.answer_schema.and_then(|form| match dialect.schema_support {
            SchemaSupport::JsonSchema => {
                Some(ResponseFormat::JsonSchema { json_schema: NamedSchema::new(form) })
            }
            SchemaSupport::JsonObject => Some(ResponseFormat::JsonObject),
            SchemaSupport::PromptOnly => None,
        }),
        messages: messages(model, dialect, request),
        tools: tools.collect(),
        tool_choice: request.forced_tool(model).map(FunctionChoice::new),
    };
    // Cannot fail: all map keys are strings, and no `Serialize` implementation returns an error.
    serde_json::to_vec(&body).unwrap_or_default()
}

fn messages<'a>(model: &Description, dialect: Dialect, request: &Request<'a>) -> Vec<Message<'a>> {
    let prompt_schema = request.answer_schema.filter(|_| dialect.schema_support != SchemaSupport::JsonSchema);
    let prompt_schema = prompt_schema.map(schema::instruction);
    let system = joined(system_text(request.system).as_deref().into_iter().chain(prompt_schema.as_deref()));
    let mut messages: Vec<_> = system.map(|content| Message::System { content }).into_iter().collect();
    let block_use = |block: &Block| match block {
        Block::Thinking { raw: Some(raw), .. } if own_raw(raw, &model.provider).is_some() => {
            BlockUse::SendBeforeOthers
        }
        Block::Thinking { .. } | Block::Opaque { .. } => BlockUse::Drop,
        _ => BlockUse::Send,
    };
    let sent = (sees(model, request), takes_documents(model, request));
    for turn in turns(request.entries, block_use) {
        match turn.role {
            Role::User => push_user(&turn, dialect, sent, &mut messages),
            Role::Assistant => messages.push(Message::Assistant(assistant(&turn, dialect, &model.provider))),
        }
    }
    match (request.context(), messages.last_mut()) {
        (Some(context), Some(Message::User { content } | Message::Tool { content, .. })) => {
            append_context(content, context);
        }
        (Some(context), Some(Message::Seeing { content })) => {
            content.push(ContentPart::Text { text: context.into() });
        }
        (Some(context), _) => messages.push(Message::User { content: context.into() }),
        (None, _) => {}
    }
    if let (Some(image), Some(last)) = (request.image, messages.last_mut())
        && let Message::User { content } = last
    {
        let image_url = ImageUrl { url: image.data_url() };
        let content =
            vec![ContentPart::Text { text: std::mem::take(content) }, ContentPart::ImageUrl { image_url }];
        *last = Message::Seeing { content };
    }
    messages
}

/// Raw data of a block: reasoning as `reasoning_details` or as text of the field named by `field`; or the
/// `extra_content` of a tool call.
#[derive(Deserialize)]
struct RawData<'a> {
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    field: Option<Cow<'a, str>>,
}

fn own_raw<'a>(raw: &'a RawBlock, provider: &str) -> Option<RawData<'a>> {
    serde_json::from_str(raw.of(NAME, provider)?).ok()
}

/// Content of the assistant message inserted between a tool result and a user message.
const INSERTED_REPLY: &str = "OK.";

/// Each tool result is a message of its own; the user's text follows as one message, in parts if the model is sent images or
/// PDFs.
fn push_user<'a>(turn: &Turn<'a>, dialect: Dialect, sent: (bool, bool), messages: &mut Vec<Message<'a>>) {
    for block in &turn.blocks {
        if let Block::ToolResult { tool_use_id, content, .. } = block {
            let tool_call_id = call_id(tool_use_id, dialect.nine_character_ids);
            messages.push(Message::Tool { tool_call_id, content: content.into() });
        }
    }
    let Some(content) = joined(user_texts(turn)) else { return };
    if dialect.requires_assistant_after_tool && matches!(messages.last(), Some(Message::Tool { .. })) {
        let reply = Assistant { content: Some(INSERTED_REPLY.to_owned()), ..Assistant::default() };
        messages.push(Message::Assistant(reply));
    }
    messages.push(match seen_parts(turn, sent) {
        Some(content) => Message::Seeing { content },
        None => Message::User { content: content.into() },
    });
}

/// The parts of a turn of the user; `None` if all are texts.
fn seen_parts<'a>(turn: &Turn<'a>, (sees, takes_documents): (bool, bool)) -> Option<Vec<ContentPart<'a>>> {
    let text = |text: &'a str| ContentPart::Text { text: text.into() };
    let part = |block: &&'a Block| match block {
        Block::Text { text: said, .. } => Some(text(user_text(said))),
        Block::Image(image) if sees => {
            Some(ContentPart::ImageUrl { image_url: ImageUrl { url: data_url(image) } })
        }
        Block::Image(image) => Some(text(&image.unseen)),
        Block::Document(document) if takes_documents => {
            let file = File { filename: &document.name, file_data: document_url(document) };
            Some(ContentPart::File { file })
        }
        Block::Document(document) => Some(text(&document.unread)),
        _ => None,
    };
    let is_other = |block: &&Block| match block {
        Block::Image(_) => sees,
        Block::Document(_) => takes_documents,
        _ => false,
    };
    turn.blocks.iter().any(is_other).then(|| turn.blocks.iter().filter_map(part).collect())
}

fn assistant<'a>(turn: &Turn<'a>, dialect: Dialect, provider: &str) -> Assistant<'a> {
    let mut message = Assistant { content: joined(texts(turn)), ..Assistant::default() };
    for block in &turn.blocks {
        match block {
            Block::ToolUse { id, name, input, raw } => message.tool_calls.push(ToolCall {
                id: call_id(id, dialect.nine_character_ids),
                kind: "function",
                function: Function { name: tool_name(name), arguments: input.to_string() },
                extra_content: raw.as_ref().and_then(|raw| own_raw(raw, provider)?.extra_content),
            }),
            Block::Thinking { text, raw: Some(raw) } => {
                let Some(reasoning) = own_raw(raw, provider) else { continue };
                message.reasoning_details = reasoning.reasoning_details;
                match reasoning.field.as_deref() {
                    Some("reasoning_content") => message.reasoning_content = Some(text),
                    Some("reasoning") => message.reasoning = Some(text),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    if dialect.requires_reasoning_content && !message.tool_calls.is_empty() {
        message.reasoning_content.get_or_insert("");
    }
    message
}

fn texts<'a>(turn: &Turn<'a>) -> impl Iterator<Item = &'a str> {
    turn.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    })
}
