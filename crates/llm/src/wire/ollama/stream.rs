//! The lines of Ollama's answer, put together.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelError, ModelTurn, StopReason};
use serde_json::{Map, Value};

use super::super::Decoder;
use super::NAME;
use super::response::{Call, Line};
use crate::error;
use crate::model::Event;
use crate::turn;

/// Puts one answer together.
pub(crate) struct OllamaDecoder {
    provider: Box<str>,
    thinking: String,
    text: String,
    /// Tool calls, as they are kept.
    calls: Vec<Block>,
    malformed: Vec<(String, String)>,
    done: bool,
}

impl OllamaDecoder {
    pub(crate) fn new(provider: &str) -> Self {
        Self {
            provider: provider.into(),
            thinking: String::new(),
            text: String::new(),
            calls: Vec::new(),
            malformed: Vec::new(),
            done: false,
        }
    }

    fn call(&mut self, call: Call<'_>, out: &mut VecDeque<Event>) {
        let (index, id, json) = (self.calls.len(), call.id.unwrap_or_default(), call.function.json());
        let name = call.function.name;
        out.push_back(Event::ToolStart { index, id: id.clone(), name: name.clone() });
        let input = turn::arguments(&json).unwrap_or_else(|sent| {
            self.malformed.push((id.clone(), sent));
            Value::Object(Map::new())
        });
        out.push_back(Event::ToolArguments { index, json });
        self.calls.push(Block::ToolUse { id, name, input, raw: None });
    }

    fn finish(&mut self, line: &Line<'_>, out: &mut VecDeque<Event>) {
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            let raw = RawBlock::new(NAME, &self.provider, "{}");
            content.push(Block::Thinking { text: std::mem::take(&mut self.thinking), raw: Some(raw) });
        }
        if !self.text.is_empty() {
            content.push(Block::text(std::mem::take(&mut self.text)));
        }
        let mut stop = line.stop();
        // It says `stop` beside tool calls.
        if stop == StopReason::EndTurn && !self.calls.is_empty() {
            stop = StopReason::ToolUse;
        }
        content.append(&mut self.calls);
        let malformed = std::mem::take(&mut self.malformed);
        self.done = true;
        out.push_back(Event::Done(Box::new(ModelTurn { content, malformed, stop, usage: line.usage() })));
    }
}

impl Decoder for OllamaDecoder {
    fn event(&mut self, _name: &str, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if self.done {
            return Ok(());
        }
        let mut line: Line<'_> = serde_json::from_str(data)
            .map_err(|error| error::invalid(format!("a line that cannot be read: {error}")))?;
        if line.error.is_some() {
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
            for call in message.tool_calls.into_iter().flatten() {
                self.call(call, out);
            }
        } else if !line.done {
            return Err(error::invalid("a line without a message"));
        }
        if line.done {
            self.finish(&line, out);
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if self.done { Ok(()) } else { Err(error::cut_off()) }
    }

    fn whole(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.event("", body, out)?;
        self.end(out)
    }
}
