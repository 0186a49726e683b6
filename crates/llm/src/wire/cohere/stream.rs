//! Decodes the events of Cohere's stream. Streams send single objects where complete answers have lists; both are read into the
//! same type.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{
    BilledTokens, ModelAnswer, ModelError, ModelErrorCode as Code, StopReason, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::wire::fields::{self, Arguments, Count, Pieces, lenient, text};
use crate::wire::{AnswerEnd, Decoder, finish_reason};

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
#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(rename = "type", default, deserialize_with = "text")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(default, borrow)]
    pub(super) delta: Option<Delta<'a>>,
}

/// New content of a stream, or a complete answer.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default, borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(default, deserialize_with = "text")]
    pub(super) finish_reason: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedUsage>,
    #[serde(default, deserialize_with = "text")]
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default)]
    pub(super) content: Pieces<Content>,
    #[serde(default, deserialize_with = "text")]
    pub(super) tool_plan: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Pieces<Call>,
    /// One citation, or a list of them.
    #[serde(default, borrow)]
    pub(super) citations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default, deserialize_with = "text")]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) thinking: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default, deserialize_with = "text")]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default, deserialize_with = "text")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
}

/// Two usage counts: of all tokens, and of billed tokens.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct ReportedUsage {
    #[serde(deserialize_with = "lenient")]
    tokens: Option<Tokens>,
    #[serde(deserialize_with = "lenient")]
    billed_units: Option<Tokens>,
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
    pub(super) fn normalised(self) -> Usage {
        let all = self.tokens.or(self.billed_units).unwrap_or_default();
        let (input_tokens, output_tokens) = (all.input_tokens.or_zero(), all.output_tokens.or_zero());
        let billed = self.billed_units.and_then(|units| {
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
        "TOOL_CALL" => Ok(StopReason::ToolUse),
        "MAX_TOKENS" => Ok(StopReason::MaxTokens),
        "ERROR_TOXIC" => Ok(StopReason::Refusal),
        "COMPLETE" | "STOP_SEQUENCE" => Ok(StopReason::EndTurn),
        _ if reason.starts_with("ERROR") || matches!(reason, "TIMEOUT" | "USER_CANCEL") => {
            Err(gave_up(reason, explanation))
        }
        other => finish_reason::stop_reason(other, end),
    }
}

/// The error for a finish reason that means failure.
fn gave_up(reason: &str, explanation: Option<String>) -> ModelError {
    let explanation = explanation.unwrap_or_else(|| format!("the provider broke off its answer ({reason})"));
    let error = error::in_stream(&serde_json::json!({ "error": explanation }).to_string());
    let code = match (error.code, reason) {
        (Code::Unknown, "TIMEOUT") => Code::Timeout,
        (Code::Unknown, "ERROR_LIMIT") => Code::ContextLengthExceeded,
        (Code::Unknown, _) => Code::NetworkError,
        (code, _) => code,
    };
    ModelError { code, ..error }
}

/// Assembles one answer.
pub(crate) struct CohereDecoder {
    provider: Box<str>,
    content: Vec<Piece>,
    /// Citations, unchanged.
    citations: Vec<String>,
    calls: Vec<PartialCall>,
    usage: Usage,
    stop: Option<StopReason>,
    end: AnswerEnd,
    done: bool,
}

/// A content block being received.
struct Piece {
    number: u64,
    /// The kind of reasoning; `None` for text.
    reasoning: Option<Reasoning>,
    text: String,
}

/// A tool call being received.
struct PartialCall {
    number: u64,
    id: String,
    name: String,
    json: String,
}

impl CohereDecoder {
    pub(crate) fn new(provider: &str, end: AnswerEnd) -> Self {
        Self {
            provider: provider.into(),
            content: Vec::new(),
            citations: Vec::new(),
            calls: Vec::new(),
            usage: Usage::default(),
            stop: None,
            end,
            done: false,
        }
    }

    fn content(&mut self, number: u64, content: Content, out: &mut VecDeque<Event>) {
        self.piece(number, Some(Reasoning::Thinking), content.thinking, out);
        self.piece(number, None, content.text, out);
    }

    fn piece(
        &mut self,
        number: u64,
        reasoning: Option<Reasoning>,
        text: Option<String>,
        out: &mut VecDeque<Event>,
    ) {
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        match self.content.last_mut().filter(|last| (last.number, last.reasoning) == (number, reasoning)) {
            Some(piece) => piece.text.push_str(&text),
            None => self.content.push(Piece { number, reasoning, text: text.clone() }),
        }
        out.push_back(if reasoning.is_some() { Event::Thinking(text) } else { Event::Text(text) });
    }

    fn begin_call(&mut self, number: u64, call: Call, out: &mut VecDeque<Event>) {
        let (name, json) =
            call.function.map_or_else(Default::default, |function| (function.name, function.arguments));
        let (id, name) = (call.id.unwrap_or_default(), name.unwrap_or_default());
        let json = json.unwrap_or_default().0;
        let index = self.calls.len();
        out.push_back(Event::ToolStart { index, id: id.clone(), name: name.clone() });
        if !json.is_empty() {
            out.push_back(Event::ToolArguments { index, json: json.clone() });
        }
        self.calls.push(PartialCall { number, id, name, json });
    }

    fn continue_call(
        &mut self,
        number: u64,
        call: Call,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        let Some(index) = self.calls.iter().rposition(|known| known.number == number) else {
            return Err(error::invalid("the provider sent part of a tool call that was not started"));
        };
        let json = call.function.and_then(|function| function.arguments).unwrap_or_default().0;
        if !json.is_empty() {
            self.calls[index].json.push_str(&json);
            out.push_back(Event::ToolArguments { index, json });
        }
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
        self.usage = delta.usage.map_or(self.usage, |usage| usage.normalised());
        let said_something =
            !self.calls.is_empty() || self.content.iter().any(|piece| piece.reasoning.is_none());
        self.stop = match delta.finish_reason.as_deref().map(str::trim) {
            Some(reason) if !reason.is_empty() => Some(stop_reason(reason, delta.error, self.end)?),
            _ => said_something.then_some(StopReason::EndTurn),
        };
        self.finish(out)
    }

    /// Completes the answer once its finish reason is known.
    fn finish(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if self.done {
            return Ok(());
        }
        let mut stop = self.stop.ok_or_else(error::cut_off)?;
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
        for call in std::mem::take(&mut self.calls) {
            let input = fields::parse_arguments(&call.json).unwrap_or_else(|sent| {
                malformed.push((call.id.clone(), sent));
                Value::Object(Map::new())
            });
            content.push(Block::ToolUse { id: call.id, name: call.name, input, raw: None });
        }
        if stop == StopReason::EndTurn && content.iter().any(|block| matches!(block, Block::ToolUse { .. })) {
            stop = StopReason::ToolUse;
        }
        self.done = true;
        out.push_back(Event::Done(Box::new(ModelAnswer { content, malformed, stop, usage: self.usage })));
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
    fn event(&mut self, name: &str, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        match data.trim() {
            "" => return Ok(()),
            "[DONE]" => return self.finish(out),
            _ if name == "error" => return Err(error::in_stream(data)),
            _ => {}
        }
        let event: StreamEvent<'_> =
            serde_json::from_str(data).map_err(|why| error::unreadable(data, &why))?;
        match (event.kind.as_deref().unwrap_or_default(), event.delta) {
            // An error has no type and a top-level message.
            ("" | "error", _) => Err(error::in_stream(data)),
            ("message-end", Some(delta)) => self.close(delta, out),
            (kind, Some(Delta { message: Some(message), .. })) => {
                self.message(kind, event.index.or_zero(), message, out)
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.finish(out)
    }

    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let mut answer: Delta<'_> =
            serde_json::from_str(body).map_err(|why| error::unreadable(body, &why))?;
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
