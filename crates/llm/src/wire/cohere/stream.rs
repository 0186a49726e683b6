//! Decodes the events of Cohere's stream. Streams send single objects where complete answers have lists; both are read into the
//! same type.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{
    BilledTokens, ModelAnswer, ModelError, ModelErrorCode as Code, StopReason, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::wire::fields::{Arguments, Count, Function, Lenient, Pieces, Text, null_is_default};
use crate::wire::{self, AnswerEnd, Decoder, done, finish_reason, is_done, read};

/// The kind of a reasoning block, stored with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reasoning {
    /// A thinking content block.
    Thinking,
    /// The plan before tool calls.
    Plan,
}

/// An event of a stream.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    #[serde(rename = "type")]
    kind: Text,
    index: Count,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

/// New content of a stream, or a complete answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    message: Option<Message<'a>>,
    finish_reason: Text,
    usage: Lenient<Option<ReportedUsage>>,
    error: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    content: Pieces<Content>,
    tool_plan: Text,
    tool_calls: Pieces<Call>,
    /// One citation, or a list of them.
    #[serde(borrow)]
    citations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content {
    text: Text,
    thinking: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Call {
    id: Text,
    #[serde(deserialize_with = "null_is_default")]
    function: Function,
}

/// Two usage counts: of all tokens, and of billed tokens.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct ReportedUsage {
    tokens: Lenient<Option<Tokens>>,
    billed_units: Lenient<Option<Tokens>>,
    cached_tokens: Count,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: Count,
    output_tokens: Count,
    reasoning_tokens: Count,
}

impl ReportedUsage {
    /// Converts to Houston's [`Usage`]: all tokens fill the context; tokens that Cohere adds itself are not billed.
    fn normalised(self) -> Usage {
        let all = self.tokens.0.or(self.billed_units.0).unwrap_or_default();
        let (input_tokens, output_tokens) = (all.input_tokens.or_zero(), all.output_tokens.or_zero());
        let billed = self.billed_units.0.and_then(|units| {
            let (input_tokens, output_tokens) = (units.input_tokens.0?, units.output_tokens.0?);
            Some(BilledTokens { input_tokens, output_tokens })
        });
        Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: self.cached_tokens.or_zero().min(input_tokens),
            reasoning_tokens: all.reasoning_tokens.or_zero().min(output_tokens),
            billed,
            ..Usage::default()
        }
    }
}

/// Maps a finish reason.
///
/// # Errors
/// The provider's error if it gave up (`explanation` is its own text), otherwise as [`finish_reason::stop_reason`].
fn stop_reason(reason: &str, explanation: Option<String>, end: AnswerEnd) -> Result<StopReason, ModelError> {
    match reason {
        "ERROR_TOXIC" => Ok(StopReason::Refusal),
        _ if reason.starts_with("ERROR") || matches!(reason, "TIMEOUT" | "USER_CANCEL") => {
            Err(gave_up(reason, explanation))
        }
        other => finish_reason::stop_reason(other, end),
    }
}

/// The error for a finish reason that means failure.
fn gave_up(reason: &str, explanation: Option<String>) -> ModelError {
    let explanation = explanation.unwrap_or_else(|| format!("the provider broke off its answer ({reason})"));
    let error = error::in_stream(&json!({ "error": explanation }).to_string());
    let code = match (error.code, reason) {
        (Code::Unknown, "TIMEOUT") => Code::Timeout,
        (Code::Unknown, "ERROR_LIMIT") => Code::ContextLengthExceeded,
        (Code::Unknown, _) => Code::NetworkError,
        (code, _) => code,
    };
    ModelError { code, ..error }
}

/// Assembles one answer.
#[derive(Default)]
pub(crate) struct CohereDecoder {
    provider: Box<str>,
    content: Vec<Piece>,
    /// Citations, unchanged.
    citations: Vec<String>,
    /// With the numbers that the provider gives them.
    calls: Vec<(u64, wire::Call)>,
    usage: Usage,
    stop: Option<StopReason>,
    end: AnswerEnd,
}

/// A content block being received.
struct Piece {
    number: u64,
    /// The kind of reasoning; `None` for text.
    reasoning: Option<Reasoning>,
    text: String,
}

impl CohereDecoder {
    pub(crate) fn new(provider: &str, end: AnswerEnd) -> Self {
        Self { provider: provider.into(), end, ..Self::default() }
    }

    fn content(&mut self, number: u64, content: Content, out: &mut VecDeque<Event>) {
        self.piece(number, Some(Reasoning::Thinking), content.thinking, out);
        self.piece(number, None, content.text, out);
    }

    fn piece(&mut self, number: u64, reasoning: Option<Reasoning>, text: Text, out: &mut VecDeque<Event>) {
        let Some(text) = text.0.filter(|text| !text.is_empty()) else { return };
        match self.content.last_mut().filter(|last| (last.number, last.reasoning) == (number, reasoning)) {
            Some(piece) => piece.text.push_str(&text),
            None => self.content.push(Piece { number, reasoning, text: text.clone() }),
        }
        out.push_back(if reasoning.is_some() { Event::Thinking(text) } else { Event::Text(text) });
    }

    fn begin_call(&mut self, number: u64, call: Call, out: &mut VecDeque<Event>) {
        let Function { name, arguments: Arguments(json) } = call.function;
        let (id, name) = (call.id.0.unwrap_or_default(), name.0.unwrap_or_default());
        let mut call = wire::Call::begin(self.calls.len(), id, name, out);
        call.push(json, out);
        self.calls.push((number, call));
    }

    fn continue_call(
        &mut self,
        number: u64,
        call: Call,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        let Some((_, known)) = self.calls.iter_mut().rfind(|(known, _)| *known == number) else {
            return Err(error::invalid("the provider sent part of a tool call that was not started"));
        };
        known.push(call.function.arguments.0, out);
        Ok(())
    }

    fn cite(&mut self, citations: Option<&RawValue>) {
        let Some(json) = citations.map(RawValue::get) else { return };
        match serde_json::from_str::<Vec<&RawValue>>(json) {
            Ok(many) => self.citations.extend(many.into_iter().map(|one| one.get().to_owned())),
            Err(_) if json.starts_with('{') => self.citations.push(json.to_owned()),
            Err(_) => {}
        }
    }

    /// Handles the end of a stream or of a complete answer.
    fn close(&mut self, delta: Delta<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.usage = delta.usage.0.map_or(self.usage, ReportedUsage::normalised);
        let said_something =
            !self.calls.is_empty() || self.content.iter().any(|piece| piece.reasoning.is_none());
        self.stop = match delta.finish_reason.trimmed() {
            "" => said_something.then_some(StopReason::EndTurn),
            reason => Some(stop_reason(reason, delta.error.0, self.end)?),
        };
        self.finish(out)
    }

    /// Completes the answer once its finish reason is known.
    fn finish(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if is_done(out) {
            return Ok(());
        }
        let stop = self.stop.ok_or_else(error::cut_off)?;
        let (mut content, mut malformed) = (Vec::new(), Vec::new());
        let mut citations = std::mem::take(&mut self.citations);
        for Piece { reasoning, text, .. } in std::mem::take(&mut self.content) {
            content.push(if let Some(kind) = reasoning {
                let raw = RawBlock::new(NAME, &self.provider, json!(kind).to_string());
                Block::Thinking { text, raw: Some(raw) }
            } else {
                // All citations belong to the first text: no answer with several was seen so far.
                let cited = std::mem::take(&mut citations);
                let json = (!cited.is_empty()).then(|| format!("[{}]", cited.join(",")));
                Block::Text { text, raw: json.map(|json| RawBlock::new(NAME, &self.provider, json)) }
            });
        }
        let calls = std::mem::take(&mut self.calls).into_iter();
        content.extend(calls.map(|(_, call)| call.block(None, &mut malformed)));
        done(ModelAnswer { content, malformed, stop, usage: self.usage }, out);
        Ok(())
    }

    /// Reads all parts of an event, whatever its type.
    fn message(
        &mut self,
        kind: &str,
        number: u64,
        message: Message<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        self.piece(0, Some(Reasoning::Plan), message.tool_plan, out);
        for content in message.content.0 {
            self.content(number, content, out);
        }
        for call in message.tool_calls.0 {
            match kind {
                "tool-call-delta" => self.continue_call(number, call, out)?,
                _ => self.begin_call(number, call, out),
            }
        }
        self.cite(message.citations);
        Ok(())
    }
}

impl Decoder for CohereDecoder {
    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let event: StreamEvent<'_> = read(data)?;
        match (event.kind.0.as_deref().unwrap_or_default(), event.delta) {
            // An error has no type and a top-level message.
            ("" | "error", _) => Err(error::in_stream(data)),
            ("message-end", Some(delta)) => self.close(delta, out),
            (kind, Some(Delta { message: Some(message), .. })) => {
                self.message(kind, event.index.or_zero(), message, out)
            }
            _ => Ok(()),
        }
    }

    fn done_mark(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.finish(out)
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.finish(out)
    }

    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let mut answer: Delta<'_> = read(body)?;
        let Some(message) = answer.message.take() else { return Err(error::in_stream(body)) };
        // Numbered by position, so that each is a block of its own.
        self.piece(0, Some(Reasoning::Plan), message.tool_plan, out);
        for (number, content) in message.content.0.into_iter().enumerate() {
            self.content(number as u64, content, out);
        }
        for (number, call) in message.tool_calls.0.into_iter().enumerate() {
            self.begin_call(number as u64, call, out);
        }
        self.cite(message.citations);
        self.close(answer, out)
    }
}
