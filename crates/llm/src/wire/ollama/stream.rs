//! Decodes the lines of Ollama's answer, which have the same form as a complete answer.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::wire::fields::{self, Arguments, Count, Pieces, is_error, lenient, text};
use crate::wire::think_tag::{Split, ThinkTag};
use crate::wire::{AnswerEnd, Decoder, finish_reason};

/// A line of a stream, or a complete answer.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default, borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) message: Option<Message>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) done: bool,
    #[serde(default, deserialize_with = "text")]
    pub(super) done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: Count,
    #[serde(default)]
    eval_count: Count,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default, deserialize_with = "text")]
    pub(super) content: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub(super) thinking: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Pieces<Call>,
}

/// A complete tool call.
#[derive(Deserialize)]
struct Call {
    #[serde(default, deserialize_with = "text")]
    pub(super) id: Option<String>,
    pub(super) function: Function,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default, deserialize_with = "text")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
}

impl Line<'_> {
    /// Converts to Houston's [`Usage`].
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_eval_count.or_zero(),
            output_tokens: self.eval_count.or_zero(),
            ..Usage::default()
        }
    }

    /// Maps the finish reason.
    pub(super) fn stop(&self, end: AnswerEnd) -> Result<StopReason, ModelError> {
        match self.done_reason.as_deref().map(str::trim) {
            None | Some("") => Ok(StopReason::EndTurn),
            Some(reason) => finish_reason::stop_reason(reason, end),
        }
    }
}

/// Assembles one answer.
pub(crate) struct OllamaDecoder {
    provider: Box<str>,
    thinking: String,
    /// Whether the server separates the reasoning. Only then it can be sent back.
    separates: bool,
    tag: ThinkTag,
    text: String,
    /// Completed tool calls.
    calls: Vec<Block>,
    malformed: Vec<(String, String)>,
    end: AnswerEnd,
    done: bool,
}

impl OllamaDecoder {
    pub(crate) fn new(provider: &str, end: AnswerEnd) -> Self {
        Self {
            provider: provider.into(),
            thinking: String::new(),
            separates: false,
            tag: ThinkTag::default(),
            text: String::new(),
            calls: Vec::new(),
            malformed: Vec::new(),
            end,
            done: false,
        }
    }

    fn call(&mut self, call: Call, out: &mut VecDeque<Event>) {
        let (index, id) = (self.calls.len(), call.id.unwrap_or_default());
        let name = call.function.name.unwrap_or_default();
        let json = call.function.arguments.map(|json| json.0).filter(|json| !json.is_empty());
        let json = json.unwrap_or_else(|| "{}".to_owned());
        out.push_back(Event::ToolStart { index, id: id.clone(), name: name.clone() });
        let input = fields::parse_arguments(&json).unwrap_or_else(|sent| {
            self.malformed.push((id.clone(), sent));
            Value::Object(Map::new())
        });
        out.push_back(Event::ToolArguments { index, json });
        self.calls.push(Block::ToolUse { id, name, input, raw: None });
    }

    /// Adds a piece of the reasoning and of the text.
    fn write(&mut self, Split { thinking, text }: Split, out: &mut VecDeque<Event>) {
        if !thinking.is_empty() {
            self.thinking.push_str(&thinking);
            out.push_back(Event::Thinking(thinking));
        }
        if !text.is_empty() {
            self.text.push_str(&text);
            out.push_back(Event::Text(text));
        }
    }

    fn finish(&mut self, line: &Line<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let held = self.tag.finish();
        self.write(held, out);
        let mut stop = line.stop(self.end)?;
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            let raw = self.separates.then(|| RawBlock::new(NAME, &self.provider, "{}"));
            content.push(Block::Thinking { text: std::mem::take(&mut self.thinking), raw });
        }
        if !self.text.is_empty() {
            content.push(Block::text(std::mem::take(&mut self.text)));
        }
        // It reports `stop` together with tool calls.
        if stop == StopReason::EndTurn && !self.calls.is_empty() {
            stop = StopReason::ToolUse;
        }
        content.append(&mut self.calls);
        let malformed = std::mem::take(&mut self.malformed);
        self.done = true;
        out.push_back(Event::Done(Box::new(ModelAnswer { content, malformed, stop, usage: line.usage() })));
        Ok(())
    }
}

impl Decoder for OllamaDecoder {
    fn event(&mut self, _name: &str, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if self.done {
            return Ok(());
        }
        let mut line: Line<'_> = serde_json::from_str(data).map_err(|why| error::unreadable(data, &why))?;
        if is_error(line.error) {
            return Err(error::in_stream(data));
        }
        if let Some(message) = line.message.take() {
            if let Some(thinking) = message.thinking.filter(|thinking| !thinking.is_empty()) {
                self.separates = true;
                let text = self.tag.ignore();
                self.write(Split { thinking, text }, out);
            }
            let split = self.tag.push(&message.content.unwrap_or_default());
            self.write(split, out);
            for call in message.tool_calls.0 {
                self.call(call, out);
            }
        } else if !line.done {
            let unknown = || error::invalid("the provider sent a line without a message");
            return Err(error::reported(data).unwrap_or_else(unknown));
        }
        if line.done { self.finish(&line, out) } else { Ok(()) }
    }

    fn end(&mut self, _out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if self.done { Ok(()) } else { Err(error::cut_off()) }
    }

    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.event("", body, out)?;
        self.end(out)
    }
}
