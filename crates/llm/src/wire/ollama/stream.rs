//! Decodes the lines of Ollama's answer.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, StopReason};
use serde_json::{Map, Value};

use super::super::fields::is_error;
use super::super::{AnswerEnd, Decoder, arguments};
use super::NAME;
use super::response::{Call, Line};
use crate::error;
use crate::model::Event;

/// Assembles one answer.
pub(crate) struct OllamaDecoder {
    provider: Box<str>,
    thinking: String,
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
        let input = arguments::parse(&json).unwrap_or_else(|sent| {
            self.malformed.push((id.clone(), sent));
            Value::Object(Map::new())
        });
        out.push_back(Event::ToolArguments { index, json });
        self.calls.push(Block::ToolUse { id, name, input, raw: None });
    }

    fn finish(&mut self, line: &Line<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let mut stop = line.stop(self.end)?;
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            let raw = RawBlock::new(NAME, &self.provider, "{}");
            content.push(Block::Thinking { text: std::mem::take(&mut self.thinking), raw: Some(raw) });
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
            for (text, all, event) in [
                (message.thinking, &mut self.thinking, Event::Thinking as fn(String) -> Event),
                (message.content, &mut self.text, Event::Text),
            ] {
                let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
                all.push_str(&text);
                out.push_back(event(text));
            }
            for call in message.tool_calls {
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
