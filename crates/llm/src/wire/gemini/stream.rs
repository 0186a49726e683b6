//! The chunks of an answer, put together.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelError, ModelTurn, StopReason};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::Decoder;
use super::NAME;
use super::response::{Candidate, Chunk, FunctionCall, Part, ReportedUsage, stop_reason};
use crate::error;
use crate::model::Event;
use crate::turn;

/// Puts one answer together.
pub(crate) struct GeminiDecoder {
    provider: Box<str>,
    /// Those that are complete.
    content: Vec<Block>,
    /// The text under construction.
    text: Option<Text>,
    thought: String,
    calls: usize,
    malformed: Vec<(String, String)>,
    usage: ReportedUsage,
    stop: Option<StopReason>,
    done: bool,
}

/// Parts of a text, one after the other.
#[derive(Default)]
struct Text {
    text: String,
    /// Where the signed parts begin and end in the text, and how they came.
    signed: Vec<(usize, usize, Box<RawValue>)>,
}

impl Text {
    /// The finished block; `None` when nothing is in it. A signature on nothing is still one.
    fn block(self, provider: &str) -> Option<Block> {
        let raw = (!self.signed.is_empty()).then(|| RawBlock::new(NAME, provider, self.parts()));
        if self.text.trim().is_empty() {
            raw.map(|raw| Block::Opaque { raw })
        } else {
            Some(Block::Text { text: self.text, raw })
        }
    }

    /// The list of its parts: the signed ones as they came, what stands between them as one.
    fn parts(&self) -> String {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Piece<'a> {
            Plain { text: &'a str },
            Signed(&'a RawValue),
        }
        let (mut pieces, mut done) = (Vec::new(), 0);
        for (start, end, part) in &self.signed {
            if *start > done {
                pieces.push(Piece::Plain { text: &self.text[done..*start] });
            }
            pieces.push(Piece::Signed(part));
            done = *end;
        }
        if self.text.len() > done {
            pieces.push(Piece::Plain { text: &self.text[done..] });
        }
        serde_json::to_string(&pieces).unwrap_or_default()
    }
}

impl GeminiDecoder {
    pub(crate) fn new(provider: &str) -> Self {
        Self {
            provider: provider.into(),
            content: Vec::new(),
            text: None,
            thought: String::new(),
            calls: 0,
            malformed: Vec::new(),
            usage: ReportedUsage::default(),
            stop: None,
            done: false,
        }
    }

    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            // Errors come in a list too.
            Err(_) if data.starts_with('[') => return Err(error::in_stream(data)),
            Err(error) => return Err(error::invalid(format!("a chunk that cannot be read: {error}"))),
        };
        if chunk.error.is_some() {
            return Err(error::in_stream(data));
        }
        self.usage.update(chunk.usage_metadata.unwrap_or_default());
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            self.stop = Some(StopReason::Refusal);
        }
        // The others were not asked for.
        for candidate in chunk.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            self.candidate(&candidate, out)?;
        }
        Ok(())
    }

    fn candidate(&mut self, candidate: &Candidate<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        for part in &candidate.content.parts {
            // It had not finished yet.
            self.stop = None;
            self.part(part, out)?;
        }
        let Some(reason) = candidate.finish_reason.as_deref().filter(|reason| !reason.is_empty()) else {
            return Ok(());
        };
        let stop = match stop_reason(reason) {
            // It is told by the result that there is no such tool.
            None if reason == "UNEXPECTED_TOOL_CALL" && self.calls > 0 => Some(StopReason::ToolUse),
            stop => stop,
        };
        let Some(stop) = stop else {
            let why = candidate.finish_message.as_deref().unwrap_or("the provider does not say more");
            let why = turn::shortened(why, LONGEST_EXPLANATION);
            return Err(error::invalid(format!("the model failed: {}: {why}", turn::shortened(reason, 40))));
        };
        self.stop = Some(stop);
        Ok(())
    }

    fn part(&mut self, raw: &RawValue, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let part: Part<'_> = serde_json::from_str(raw.get())
            .map_err(|error| error::invalid(format!("a part that cannot be read: {error}")))?;
        let signed = part.thought_signature.is_some();
        match (part.text, part.function_call) {
            (_, Some(call)) => self.call(raw, signed, &call, out)?,
            (Some(thought), None) if part.thought => self.think(thought, signed.then_some(raw), out),
            (Some(text), None) => self.say(text, signed.then_some(raw), out),
            // Anything else, kept as it came: code that ran on the provider's side and its results, tools there,
            // images, and signatures alone.
            (None, None) => {
                self.close();
                self.content.push(Block::Opaque { raw: self.kept(raw) });
            }
        }
        Ok(())
    }

    fn think(&mut self, thought: String, signed: Option<&RawValue>, out: &mut VecDeque<Event>) {
        self.close_text();
        self.thought.push_str(&thought);
        if let Some(raw) = signed {
            let raw = Some(self.kept(raw));
            self.content.push(Block::Thinking { text: std::mem::take(&mut self.thought), raw });
        }
        if !thought.is_empty() {
            out.push_back(Event::Thinking(thought));
        }
    }

    fn say(&mut self, more: String, signed: Option<&RawValue>, out: &mut VecDeque<Event>) {
        if more.is_empty() && signed.is_none() {
            return;
        }
        self.close_thought();
        let text = self.text.get_or_insert_default();
        let start = text.text.len();
        text.text.push_str(&more);
        text.signed.extend(signed.map(|raw| (start, text.text.len(), raw.to_owned())));
        if !more.is_empty() {
            out.push_back(Event::Text(more));
        }
    }

    fn call(
        &mut self,
        raw: &RawValue,
        signed: bool,
        call: &FunctionCall<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        if call.will_continue || call.partial_args.is_some() {
            return Err(error::invalid("a call in pieces, which nobody asked for"));
        }
        self.close();
        let (index, id, name) = (self.calls, call.id.clone().unwrap_or_default(), call.name.to_string());
        self.calls += 1;
        out.push_back(Event::ToolStart { index, id: id.clone(), name: name.clone() });
        let json = call.args.map_or("", RawValue::get);
        if !json.is_empty() {
            out.push_back(Event::ToolArguments { index, json: json.to_owned() });
        }
        let input = turn::arguments(json).unwrap_or_else(|sent| {
            self.malformed.push((id.clone(), sent));
            Value::Object(Map::new())
        });
        let raw = (signed || !id.is_empty()).then(|| self.kept(raw));
        self.content.push(Block::ToolUse { id, name, input, raw });
        Ok(())
    }

    fn kept(&self, raw: &RawValue) -> RawBlock {
        RawBlock::new(NAME, &self.provider, raw.get())
    }

    fn close(&mut self) {
        self.close_text();
        self.close_thought();
    }

    fn close_text(&mut self) {
        let text = self.text.take();
        self.content.extend(text.and_then(|text| text.block(&self.provider)));
    }

    /// Thoughts that are not signed are for people: Gemini does not want them back.
    fn close_thought(&mut self) {
        if !self.thought.is_empty() {
            let text = std::mem::take(&mut self.thought);
            self.content.push(Block::Thinking { text, raw: None });
        }
    }

    /// The answer, once its reason to stop is known.
    fn finish(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if self.done {
            return Ok(());
        }
        let stop = self.stop.ok_or_else(error::cut_off)?;
        self.close();
        let stop = if stop == StopReason::EndTurn && self.calls > 0 { StopReason::ToolUse } else { stop };
        self.done = true;
        out.push_back(Event::Done(Box::new(ModelTurn {
            content: std::mem::take(&mut self.content),
            malformed: std::mem::take(&mut self.malformed),
            stop,
            usage: self.usage.normalised(),
        })));
        Ok(())
    }
}

/// Longest piece of the provider's explanation that is shown, in characters.
const LONGEST_EXPLANATION: usize = 300;

impl Decoder for GeminiDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        match data.trim() {
            "" | "[DONE]" => Ok(()),
            _ if name == "error" => Err(error::in_stream(data)),
            data => self.chunk(data, out),
        }
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.finish(out)
    }

    /// One answer, or the list of chunks that comes without `alt=sse`.
    fn whole(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        match serde_json::from_str::<Vec<&RawValue>>(body) {
            Ok(chunks) => chunks.iter().try_for_each(|chunk| self.chunk(chunk.get(), out))?,
            Err(_) => self.chunk(body, out)?,
        }
        self.finish(out)
    }
}
