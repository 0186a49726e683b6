//! Decodes the chunks of a chat completion. A chunk has a `delta`, a complete answer a `message`; both are read into the same
//! type.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, StopReason, Tier, Usage};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::wire::fields::{self, Count, Function, Lenient, Pieces, Text, is_error, null_is_default};
use crate::wire::finish_reason::stop_reason;
use crate::wire::openai::{ReportedUsage, merged, normalised};
use crate::wire::think_tag::{Split, ThinkTag};
use crate::wire::{AnswerEnd, Call, Decoder, done, is_done, read};

/// A chunk, or a complete answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    choices: Vec<Choice<'a>>,
    usage: Lenient<Option<ReportedUsage>>,
    x_groq: Lenient<Groq>,
    service_tier: Text,
    error: Option<&'a RawValue>,
    /// `error` in a flat error (vLLM).
    object: Text,
}

impl Chunk<'_> {
    /// Usage, wherever the server reports it.
    fn usage(&self) -> Option<Usage> {
        let in_choice = || self.choices.iter().find_map(|choice| choice.usage.0);
        let usage = self.usage.0.or(self.x_groq.0.usage.0).or_else(in_choice);
        let tier = self.service_tier.0.as_deref().and_then(Tier::named);
        usage.map(|usage| Usage { tier, ..normalised(usage) })
    }
}

/// A choice. Only the first one is read. Perplexity sends `delta` as well as the accumulated `message`, in chunks and
/// in complete answers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    index: Count,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    finish_reason: Text,
    /// Moonshot.
    usage: Lenient<Option<ReportedUsage>>,
    /// Error of the provider behind OpenRouter.
    error: Option<&'a RawValue>,
}

/// New content of the answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<Content>,
    refusal: Text,
    reasoning_content: Text,
    reasoning: Text,
    reasoning_details: Lenient<Vec<Value>>,
    tool_calls: Pieces<CallDelta>,
}

/// A piece of a tool call.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CallDelta {
    index: Count,
    id: Text,
    #[serde(deserialize_with = "null_is_default")]
    function: Function,
    /// Signature of the call, sent by Google's own endpoint.
    extra_content: Option<Box<RawValue>>,
}

/// Groq's extra fields of a chunk.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Groq {
    usage: Lenient<Option<ReportedUsage>>,
    error: Text,
}

/// Text, or text and reasoning as a list of parts (Mistral).
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    text: String,
    thinking: String,
}

impl Content {
    fn add(&mut self, part: Part) {
        self.text.push_str(&part.text.0.unwrap_or_default());
        self.thinking.push_str(&part.thinking.map(|content| content.text).unwrap_or_default());
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    text: Text,
    /// A string, or a list of parts.
    thinking: Option<Box<Content>>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = <&RawValue>::deserialize(deserializer)?;
        let is_list = whole.get().starts_with('[');
        let pieces: Vec<&RawValue> =
            if is_list { serde_json::from_str(whole.get()).map_err(Error::custom)? } else { vec![whole] };
        let mut content = Self::default();
        for piece in pieces.into_iter().map(RawValue::get) {
            match piece.as_bytes().first() {
                Some(b'"') => {
                    content.text.push_str(&serde_json::from_str::<String>(piece).map_err(Error::custom)?);
                }
                Some(b'{') => content.add(serde_json::from_str(piece).map_err(Error::custom)?),
                Some(b'0'..=b'9' | b'-') if !is_list => content.text.push_str(piece),
                _ => {}
            }
        }
        Ok(content)
    }
}

/// Assembles one answer.
#[derive(Default)]
pub(crate) struct ChatDecoder {
    provider: Box<str>,
    text: String,
    tag: ThinkTag,
    thinking: String,
    /// The field in which reasoning was received.
    thinking_field: &'static str,
    thinking_details: Vec<Value>,
    calls: Vec<Received>,
    refused: bool,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    end: AnswerEnd,
}

/// A tool call being received.
struct Received {
    call: Call,
    /// The provider's index of the call.
    number: Option<u64>,
    /// Additional data that must be sent back with the call.
    extra: Option<Box<RawValue>>,
    /// Whether [`Event::ToolStart`] was emitted; arguments wait for it.
    started: bool,
}

impl ChatDecoder {
    pub(crate) fn new(provider: &str, end: AnswerEnd) -> Self {
        Self { provider: provider.into(), thinking_field: "reasoning", end, ..Self::default() }
    }

    fn read(&mut self, data: &str, whole: bool, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let chunk: Chunk<'_> = read(data)?;
        if is_error(chunk.error) || chunk.object.0.as_deref() == Some("error") {
            return Err(error::in_stream(data));
        }
        if let Some(message) = &chunk.x_groq.0.error.0 {
            return Err(error::in_stream(&serde_json::json!({ "error": message }).to_string()));
        }
        self.usage = merged(self.usage, chunk.usage());
        // Houston requests only one.
        let mut first = chunk.choices.iter().filter(|choice| choice.index.or_zero() == 0);
        first.try_for_each(|choice| self.choice(choice, whole, out))
    }

    fn choice(
        &mut self,
        choice: &Choice<'_>,
        whole: bool,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        let [first, second] =
            if whole { [choice.message, choice.delta] } else { [choice.delta, choice.message] };
        if let Some(delta) = first.or(second) {
            self.delta(read(delta.get())?, out);
        }
        if let Some(failure) = choice.error.filter(|failure| is_error(Some(failure))) {
            return Err(error::in_stream(&format!("{{\"error\":{failure}}}")));
        }
        match choice.finish_reason.trimmed() {
            "" => {}
            reason => self.stop = Some(stop_reason(reason, self.end)?),
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, out: &mut VecDeque<Event>) {
        let Content { text: content, thinking: parts } = delta.content.unwrap_or_default();
        let named = [(delta.reasoning_content, "reasoning_content"), (delta.reasoning, "reasoning")];
        let named = named
            .into_iter()
            .find_map(|(text, field)| text.0.filter(|text| !text.is_empty()).zip(Some(field)));
        let (thinking, field) = named.unwrap_or((parts, "content"));
        if !thinking.is_empty() {
            self.thinking_field = field;
            let text = self.tag.ignore();
            self.write(Split { thinking, text }, out);
        }
        for detail in delta.reasoning_details.0 {
            join_detail(&mut self.thinking_details, detail);
        }
        let refusal = delta.refusal.0.unwrap_or_default();
        self.refused |= !refusal.trim().is_empty();
        let split = self.tag.push(&content);
        if !split.thinking.is_empty() {
            self.thinking_field = "content";
        }
        self.write(split, out);
        self.write(Split { thinking: String::new(), text: refusal }, out);
        for call in delta.tool_calls.0 {
            self.call(call, out);
        }
    }

    /// Adds a piece of the reasoning and of the text.
    fn write(&mut self, split: Split, out: &mut VecDeque<Event>) {
        split.pass_on(&mut self.thinking, &mut self.text, out);
    }

    fn call(&mut self, delta: CallDelta, out: &mut VecDeque<Event>) {
        let id = delta.id.0.unwrap_or_default();
        let name = delta.function.name.0.unwrap_or_default();
        let index = self.position_of(delta.index.0, &id, &name);
        let Received { call, extra, started, .. } = &mut self.calls[index];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        *extra = delta.extra_content.or_else(|| extra.take());
        let mut news = delta.function.arguments.0;
        if !*started && !call.name.is_empty() {
            *started = true;
            call.start(out);
            news.insert_str(0, &std::mem::take(&mut call.json));
        }
        if *started { call.push(news, out) } else { call.json.push_str(&news) }
    }

    /// The position of the call that a piece belongs to. The index decides, unless a new id and a name show that the
    /// server used the index twice. Without an index, a name or a new id starts a call, and anything else continues
    /// the last one.
    fn position_of(&mut self, number: Option<u64>, id: &str, name: &str) -> usize {
        let found = match number {
            Some(_) => self.calls.iter().rposition(|call| call.number == number),
            None => self.calls.len().checked_sub(1),
        };
        let begins = |Received { call, .. }: &Received| {
            let another_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            let another_name = !name.is_empty() && !call.name.is_empty();
            match number {
                Some(_) => another_id && another_name,
                None => another_id || (another_name && (id.is_empty() || call.id != id)),
            }
        };
        match found {
            Some(index) if !begins(&self.calls[index]) => index,
            _ => {
                let index = self.calls.len();
                let call = Call { index, ..Call::default() };
                self.calls.push(Received { call, number, extra: None, started: false });
                index
            }
        }
    }

    /// The stop reason. An answer that ended properly without a finish reason is complete if it has content and its
    /// tool calls can be parsed.
    fn stop(&self) -> Option<StopReason> {
        let is_readable = |Received { call, .. }: &Received| {
            !call.name.is_empty() && fields::parse_arguments(&call.json).is_ok()
        };
        let has_content = !self.text.trim().is_empty() || !self.calls.is_empty();
        self.stop
            .or_else(|| (has_content && self.calls.iter().all(is_readable)).then_some(StopReason::EndTurn))
    }

    /// Completes the answer after its end.
    fn finish(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if is_done(out) {
            return Ok(());
        }
        let held = self.tag.finish();
        self.write(held, out);
        let mut stop = self.stop().ok_or_else(error::cut_off)?;
        let (mut content, mut malformed) = (Vec::new(), Vec::new());
        content.extend(self.thinking_block());
        if !self.text.is_empty() {
            content.push(Block::text(std::mem::take(&mut self.text)));
        }
        if stop == StopReason::EndTurn && self.refused && self.calls.is_empty() {
            stop = StopReason::Refusal;
        }
        for Received { call, extra, started, .. } in std::mem::take(&mut self.calls) {
            if !started {
                call.start(out);
            }
            let raw = extra
                .map(|extra| RawBlock::new(NAME, &self.provider, format!("{{\"extra_content\":{extra}}}")));
            content.push(call.block(raw, &mut malformed));
        }
        let usage = self.usage.unwrap_or_default();
        done(ModelAnswer { content, malformed, stop, usage }, out);
        Ok(())
    }

    fn thinking_block(&mut self) -> Option<Block> {
        if self.thinking.is_empty() && self.thinking_details.is_empty() {
            return None;
        }
        let mut fields = Map::new();
        if self.thinking_details.is_empty() {
            fields.insert("field".to_owned(), self.thinking_field.into());
        } else {
            fields.insert("reasoning_details".to_owned(), std::mem::take(&mut self.thinking_details).into());
        }
        let raw = RawBlock::new(NAME, &self.provider, Value::Object(fields).to_string());
        Some(Block::Thinking { text: std::mem::take(&mut self.thinking), raw: Some(raw) })
    }
}

impl Decoder for ChatDecoder {
    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.read(data, false, out)
    }

    fn done_mark(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.finish(out)
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let is_whole = match self.end {
            AnswerEnd::DoneMark => false,
            AnswerEnd::FinishReason => self.stop.is_some(),
            AnswerEnd::Unknown => self.stop.is_some() && self.usage.is_some(),
        };
        if is_whole || is_done(out) { self.finish(out) } else { Err(error::cut_off()) }
    }

    fn counted(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.read(body, true, out)?;
        self.finish(out)
    }
}

/// Adds a piece of OpenRouter's `reasoning_details`. Pieces with the same type and index form one block: texts are
/// concatenated, and the signature comes last.
fn join_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |a: &Value, b: &Value| ["type", "index"].iter().all(|name| a.get(name) == b.get(name));
    let found = details.last_mut().filter(|last| last.get("index").is_some() && same(last, &piece));
    match (found, piece) {
        (Some(Value::Object(found)), Value::Object(piece)) => {
            for (name, value) in piece {
                match (found.get_mut(&name), value) {
                    (Some(Value::String(text)), Value::String(more))
                        if matches!(&*name, "text" | "summary" | "data") =>
                    {
                        text.push_str(&more);
                    }
                    (Some(_), Value::Null) => {}
                    (_, value) => drop(found.insert(name, value)),
                }
            }
        }
        (_, piece) => details.push(piece),
    }
}
