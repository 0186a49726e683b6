//! Decodes the lines of Ollama's answer, which have the same form as a complete answer.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, StopReason, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::wire::fields::{Count, Function, Lenient, Pieces, Text, is_error};
use crate::wire::think_tag::{Split, ThinkTag};
use crate::wire::{self, AnswerEnd, Decoder, done, finish_reason, read};

/// A line of a stream, or a complete answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    message: Option<Message>,
    done: Lenient<bool>,
    done_reason: Text,
    prompt_eval_count: Count,
    eval_count: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    content: Text,
    thinking: Text,
    tool_calls: Pieces<Call>,
}

/// A complete tool call.
#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Text,
    function: Function,
}

impl Line<'_> {
    /// Converts to Houston's [`Usage`].
    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.prompt_eval_count.or_zero(),
            output_tokens: self.eval_count.or_zero(),
            ..Usage::default()
        }
    }

    /// Maps the finish reason.
    fn stop(&self, end: AnswerEnd) -> Result<StopReason, ModelError> {
        match self.done_reason.trimmed() {
            "" => Ok(StopReason::EndTurn),
            reason => finish_reason::stop_reason(reason, end),
        }
    }
}

/// Assembles one answer.
#[derive(Default)]
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
}

impl OllamaDecoder {
    pub(crate) fn new(provider: &str, end: AnswerEnd) -> Self {
        Self { provider: provider.into(), end, ..Self::default() }
    }

    fn call(&mut self, call: Call, out: &mut VecDeque<Event>) {
        let (id, name) = (call.id.0.unwrap_or_default(), call.function.name.0.unwrap_or_default());
        let json = Some(call.function.arguments.0).filter(|json| !json.is_empty());
        let mut call = wire::Call::begin(self.calls.len(), id, name, out);
        call.push(json.unwrap_or_else(|| "{}".to_owned()), out);
        self.calls.push(call.block(None, &mut self.malformed));
    }

    /// Adds a piece of the reasoning and of the text.
    fn write(&mut self, split: Split, out: &mut VecDeque<Event>) {
        split.pass_on(&mut self.thinking, &mut self.text, out);
    }

    fn finish(&mut self, line: &Line<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let held = self.tag.finish();
        self.write(held, out);
        let stop = line.stop(self.end)?;
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            let raw = self.separates.then(|| RawBlock::new(NAME, &self.provider, "{}"));
            content.push(Block::Thinking { text: std::mem::take(&mut self.thinking), raw });
        }
        if !self.text.is_empty() {
            content.push(Block::text(std::mem::take(&mut self.text)));
        }
        content.append(&mut self.calls);
        let malformed = std::mem::take(&mut self.malformed);
        done(ModelAnswer { content, malformed, stop, usage: line.usage() }, out);
        Ok(())
    }
}

impl Decoder for OllamaDecoder {
    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let mut line: Line<'_> = read(data)?;
        if is_error(line.error) {
            return Err(error::in_stream(data));
        }
        if let Some(message) = line.message.take() {
            if let Some(thinking) = message.thinking.0.filter(|thinking| !thinking.is_empty()) {
                self.separates = true;
                let text = self.tag.ignore();
                self.write(Split { thinking, text }, out);
            }
            let split = self.tag.push(&message.content.0.unwrap_or_default());
            self.write(split, out);
            for call in message.tool_calls.0 {
                self.call(call, out);
            }
        } else if !line.done.0 {
            let unknown = || error::invalid("the provider sent a line without a message");
            return Err(error::reported(data).unwrap_or_else(unknown));
        }
        if line.done.0 { self.finish(&line, out) } else { Ok(()) }
    }

    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.chunk(body, out)?;
        self.end(out)
    }
}
