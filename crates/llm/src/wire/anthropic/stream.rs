//! Decodes the events of a Messages stream, whose types are those of complete answers, too.

use std::borrow::Cow;
use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, PricedApart, StopReason, Tier, Usage};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::wire::fields::{Arguments, Count, Lenient, Text, null_is_default};
use crate::wire::object::Object;
use crate::wire::openai::small;
use crate::wire::{AnswerEnd, Call, Decoder, done, finish_reason, pass_on, read};

/// An event of a stream; its `type` determines the other fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    index: Count,
    message: Lenient<MessageStart>,
    content_block: Option<&'a RawValue>,
    delta: Option<Delta<'a>>,
    usage: Lenient<ReportedUsage>,
}

/// The content of `message_start`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageStart {
    usage: Lenient<ReportedUsage>,
}

/// The new content of a block; only the field of its type is set.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
    text: Text,
    thinking: Text,
    signature: Text,
    partial_json: Arguments,
    stop_reason: Text,
    /// The summary in a compaction block.
    content: Option<&'a RawValue>,
}

/// A complete answer.
#[derive(Deserialize)]
struct WholeMessage {
    #[serde(deserialize_with = "null_is_default")]
    content: Vec<Box<RawValue>>,
    #[serde(default)]
    stop_reason: Text,
    #[serde(default)]
    usage: Lenient<ReportedUsage>,
}

/// Usage as reported. Counts are cumulative; a missing count keeps its previous value.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct ReportedUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    /// Cache writes by lifetime.
    cache_creation: Lenient<Option<CacheCreation>>,
    output_tokens_details: Lenient<Option<OutputDetails>>,
    server_tool_use: Lenient<Option<ServerToolUse>>,
    /// Whether it was part of a batch. What it calls `priority` was paid for before.
    service_tier: Lenient<ServiceTier>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ServiceTier {
    Batch,
    #[default]
    #[serde(other)]
    Usual,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Count,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Count,
    ephemeral_1h_input_tokens: Count,
}

impl CacheCreation {
    fn long(self) -> u64 {
        self.ephemeral_1h_input_tokens.or_zero()
    }

    fn total(self) -> u64 {
        self.ephemeral_5m_input_tokens.or_zero() + self.ephemeral_1h_input_tokens.or_zero()
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Count,
}

impl ReportedUsage {
    /// Merges a later report.
    fn update(&mut self, later: Self) {
        self.input_tokens = self.input_tokens.updated(later.input_tokens);
        self.output_tokens = self.output_tokens.updated(later.output_tokens);
        self.cache_creation_input_tokens =
            self.cache_creation_input_tokens.updated(later.cache_creation_input_tokens);
        self.cache_read_input_tokens = self.cache_read_input_tokens.updated(later.cache_read_input_tokens);
        let created = later.cache_creation.0.filter(|created| created.total() > 0);
        self.cache_creation.0 = created.or(self.cache_creation.0);
        self.output_tokens_details.0 = later.output_tokens_details.0.or(self.output_tokens_details.0);
        self.server_tool_use.0 = later.server_tool_use.0.or(self.server_tool_use.0);
        if later.service_tier.0 != ServiceTier::Usual {
            self.service_tier = later.service_tier;
        }
    }

    /// Converts to Houston's [`Usage`]: Anthropic's input count excludes cached tokens.
    fn normalised(self) -> Usage {
        let read = self.cache_read_input_tokens.or_zero();
        let by_lifetime = || self.cache_creation.0.map_or(0, CacheCreation::total);
        let write = self.cache_creation_input_tokens.0.unwrap_or_else(by_lifetime);
        let output_tokens = self.output_tokens.or_zero();
        let thinking = self.output_tokens_details.0.map_or(0, |details| details.thinking_tokens.or_zero());
        let searches = self.server_tool_use.0.map_or(0, |used| used.web_search_requests.or_zero());
        Usage {
            input_tokens: self.input_tokens.or_zero() + read + write,
            output_tokens,
            cache_read_tokens: read,
            cache_write_tokens: write,
            long_cache_write_tokens: self.cache_creation.0.map_or(0, CacheCreation::long).min(write),
            reasoning_tokens: thinking.min(output_tokens),
            tier: (self.service_tier.0 == ServiceTier::Batch).then_some(Tier::Batch),
            apart: PricedApart { web_searches: small(searches), ..PricedApart::default() },
            ..Usage::default()
        }
    }
}

/// Maps a stop reason. `pause_turn` means that the answer is incomplete because a server-side tool takes long:
/// <https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons>.
///
/// # Errors
/// `INVALID_RESPONSE` for a reason that Anthropic does not define, unless `end` is [`AnswerEnd::Unknown`]: then it
/// counts as a normal end.
fn stop_reason(reason: &str, end: AnswerEnd) -> Result<StopReason, ModelError> {
    match reason {
        "" => Ok(StopReason::EndTurn),
        "pause_turn" => Ok(StopReason::Paused),
        // The table has Anthropic's other reasons, and OpenAI's, which other servers with this protocol use.
        other => finish_reason::stop_reason(other, end),
    }
}

/// Assembles one answer.
#[derive(Default)]
pub(crate) struct AnthropicDecoder {
    provider: Box<str>,
    /// Blocks with their index, in the order in which they were opened.
    blocks: Vec<(u64, Part)>,
    calls: usize,
    usage: ReportedUsage,
    stop: Option<StopReason>,
    end: AnswerEnd,
}

/// A block being received.
enum Part {
    Text {
        text: String,
        citations: Vec<Box<RawValue>>,
    },
    Thinking {
        raw: Map<String, Value>,
        text: String,
        signature: String,
    },
    Tool {
        call: Call,
        /// Arguments received when the block was opened; empty unless the server sends them as a whole.
        given: Value,
    },
    /// Anything else, stored unchanged: redacted reasoning, server-side tools and their results.
    Opaque {
        /// The block as it was opened.
        opened: Box<RawValue>,
        /// Pieces of its `input` received later.
        json: String,
        /// Its `content`, received later as a whole.
        content: Option<Box<RawValue>>,
    },
}

impl AnthropicDecoder {
    pub(crate) fn new(provider: &str, end: AnswerEnd) -> Self {
        Self { provider: provider.into(), end, ..Self::default() }
    }

    fn open(&mut self, number: u64, block: &RawValue, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let Ok(mut raw) = serde_json::from_str::<Map<String, Value>>(block.get()) else {
            return Err(error::invalid("the provider sent a content block that is not an object"));
        };
        let mut text_of = |name: &str| match raw.get_mut(name) {
            Some(Value::String(text)) => std::mem::take(text),
            _ => String::new(),
        };
        let kind = text_of("type");
        let part = match kind.as_str() {
            "text" => {
                let text = text_of("text");
                if !text.is_empty() {
                    out.push_back(Event::Text(text.clone()));
                }
                let citations = raw.get("citations").and_then(Value::as_array).into_iter().flatten();
                let citations = citations.filter_map(|citation| to_raw_value(citation).ok()).collect();
                Part::Text { text, citations }
            }
            "thinking" => {
                let (text, signature) = (text_of("thinking"), text_of("signature"));
                if !text.is_empty() {
                    out.push_back(Event::Thinking(text.clone()));
                }
                Part::Thinking { raw, text, signature }
            }
            "tool_use" => {
                let call = Call::begin(self.calls, text_of("id"), text_of("name"), out);
                self.calls += 1;
                Part::Tool { call, given: raw.remove("input").unwrap_or_default() }
            }
            _ => Part::Opaque { opened: block.to_owned(), json: String::new(), content: None },
        };
        self.blocks.push((number, part));
        Ok(())
    }

    fn continue_block(
        &mut self,
        number: u64,
        delta: Delta<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        let Some(position) = self.blocks.iter().rposition(|(open, _)| *open == number) else { return Ok(()) };
        let (head, tail) = self.blocks.split_at_mut(position + 1);
        let part = &mut head[position].1;
        // Text and reasoning are passed on as they arrive, so their order must be the final one.
        let kind = std::mem::discriminant(part);
        if matches!(part, Part::Text { .. } | Part::Thinking { .. })
            && tail.iter().any(|(_, later)| std::mem::discriminant(later) == kind)
        {
            return Err(error::invalid(
                "the provider sent text of a content block after the next block started",
            ));
        }
        match part {
            Part::Text { text, citations } => {
                citations.extend(delta.citation.map(ToOwned::to_owned));
                pass_on(delta.text.0.unwrap_or_default(), text, Event::Text, out);
            }
            Part::Thinking { text, signature, .. } => {
                pass_on(delta.thinking.0.unwrap_or_default(), text, Event::Thinking, out);
                signature.push_str(&delta.signature.0.unwrap_or_default());
            }
            Part::Tool { call, .. } => call.push(delta.partial_json.0, out),
            Part::Opaque { json, content, .. } => {
                json.push_str(&delta.partial_json.0);
                *content = delta.content.map(ToOwned::to_owned).or_else(|| content.take());
            }
        }
        Ok(())
    }

    /// Closes a block. Emits the arguments of a call that were received as a whole when it was opened.
    fn close(&mut self, number: u64, out: &mut VecDeque<Event>) {
        if let Some((_, Part::Tool { call, given })) =
            self.blocks.iter_mut().rev().find(|(open, _)| *open == number)
            && call.json.is_empty()
            && given.as_object().is_some_and(|given| !given.is_empty())
        {
            call.push(given.to_string(), out);
        }
    }

    fn finish(&mut self, out: &mut VecDeque<Event>) {
        let (mut content, mut malformed) = (Vec::new(), Vec::new());
        for (_, part) in std::mem::take(&mut self.blocks) {
            content.extend(block_of(part, &self.provider, &mut malformed));
        }
        let (stop, usage) = (self.stop.unwrap_or(StopReason::EndTurn), self.usage.normalised());
        done(ModelAnswer { content, malformed, stop, usage }, out);
    }
}

/// The completed block; `None` when it is empty.
fn block_of(part: Part, provider: &str, malformed: &mut Vec<(String, String)>) -> Option<Block> {
    let raw_block = |json: String| RawBlock::new(NAME, provider, json);
    match part {
        Part::Text { text, citations } => {
            let raw = (!citations.is_empty()).then(|| raw_block(cited(&text, &citations)));
            (!text.is_empty()).then_some(Block::Text { text, raw })
        }
        Part::Thinking { mut raw, text, signature } => {
            // Unsigned reasoning (from other servers with this protocol) cannot be sent back.
            let signed = !signature.is_empty();
            raw.insert("type".to_owned(), "thinking".into());
            raw.insert("thinking".to_owned(), text.as_str().into());
            raw.insert("signature".to_owned(), signature.into());
            (signed || !text.is_empty()).then(|| Block::Thinking {
                text,
                raw: signed.then(|| raw_block(Value::Object(raw).to_string())),
            })
        }
        Part::Tool { call, .. } => Some(call.block(None, malformed)),
        Part::Opaque { opened, json, content } => {
            let raw =
                raw_block(completed(&opened, &json, content).unwrap_or_else(|| opened.get().to_owned()));
            // Like readable reasoning, redacted reasoning must not end a turn.
            let is_reasoning = opened.get().contains("\"redacted_thinking\"");
            Some(if is_reasoning {
                Block::Thinking { text: String::new(), raw: Some(raw) }
            } else {
                Block::Opaque { raw }
            })
        }
    }
}

/// A text block with its citations unchanged.
fn cited(text: &str, citations: &[Box<RawValue>]) -> String {
    let cited = Object::typed("text").with("text", text).with("citations", citations);
    String::from_utf8(cited.end()).unwrap_or_default()
}

/// A block with the fields that were received later, all others unchanged; `None` when nothing was added.
fn completed(opened: &RawValue, json: &str, content: Option<Box<RawValue>>) -> Option<String> {
    let input = serde_json::from_str::<Box<RawValue>>(json).ok().map(|input| ("input", input));
    let later: Vec<_> = input.into_iter().chain(content.map(|content| ("content", content))).collect();
    if later.is_empty() {
        return None;
    }
    let mut fields: IndexMap<String, Box<RawValue>> = serde_json::from_str(opened.get()).ok()?;
    fields.extend(later.into_iter().map(|(name, value)| (name.to_owned(), value)));
    serde_json::to_string(&fields).ok()
}

impl Decoder for AnthropicDecoder {
    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let event: StreamEvent<'_> = read(data)?;
        let index = event.index.or_zero();
        match &*event.kind {
            // The server started a second answer: the first one will never be completed.
            "message_start" if !self.blocks.is_empty() => return Err(error::cut_off()),
            "message_start" => self.usage.update(event.message.0.usage.0),
            "content_block_start" => self.open(index, event.content_block.unwrap_or(RawValue::NULL), out)?,
            "content_block_delta" => {
                self.continue_block(index, event.delta.unwrap_or_default(), out)?;
            }
            "content_block_stop" => self.close(index, out),
            "message_delta" => {
                self.usage.update(event.usage.0);
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason.0) {
                    self.stop = Some(stop_reason(&reason, self.end)?);
                }
            }
            "message_stop" => self.finish(out),
            "error" => return Err(error::in_stream(data)),
            // An error of a proxy that does not know this protocol.
            "" if error::reported(data).is_some() => return Err(error::in_stream(data)),
            // Pings, and event types added later, which the versioning policy asks to ignore.
            _ => {}
        }
        Ok(())
    }

    fn counted(&self) -> Usage {
        self.usage.normalised()
    }

    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let Ok(message) = serde_json::from_str::<WholeMessage>(body) else {
            return Err(error::in_stream(body));
        };
        self.usage.update(message.usage.0);
        self.stop =
            message.stop_reason.0.as_deref().map(|reason| stop_reason(reason, self.end)).transpose()?;
        for (number, block) in (0..).zip(message.content) {
            self.open(number, &block, out)?;
            self.close(number, out);
        }
        self.finish(out);
        Ok(())
    }
}
