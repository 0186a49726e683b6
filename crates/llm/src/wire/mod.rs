//! Wires: the protocols of providers, free of I/O. Each is a folder: its `mod.rs` encodes a [`Request`] as JSON, `stream` has
//! the types shared by streamed and complete answers, and decodes stream events into [`Event`]s.

pub(crate) mod anthropic;
pub(crate) mod cohere;
pub(crate) mod conversation;
pub(crate) mod fields;
pub(crate) mod finish_reason;
pub(crate) mod gemini;
pub(crate) mod identifier;
pub(crate) mod object;
pub(crate) mod ollama;
pub(crate) mod openai;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
pub(crate) mod repair;
pub(crate) mod think_tag;
pub(crate) mod tool_schema;

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, StopReason, Usage};
use houston_domain::tool_call::ToolDefinition;
use serde::Deserialize;

use crate::error;
use crate::framing::Framing;
use crate::model::{Deferred, Description, Event, Request};
use crate::profile::{AnswerEnd, ForcedTool, Profile};
use crate::protocol::Wire;

/// Decodes one answer. Yields [`Event::Done`] when the answer is complete.
pub(crate) trait Decoder: Send {
    /// Decodes the data of one stream event and appends the result to `out`.
    ///
    /// # Errors
    /// The error reported by the provider, or `INVALID_RESPONSE` for data that cannot be decoded.
    fn event(&mut self, name: &str, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        match data.trim() {
            "" => Ok(()),
            "[DONE]" => self.done_mark(out),
            _ if name == "error" => Err(error::in_stream(data)),
            data => self.chunk(data, out),
        }
    }

    /// Decodes the JSON of one stream event, as [`event`](Self::event).
    ///
    /// # Errors
    /// As of [`event`](Self::event).
    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError>;

    /// Handles `[DONE]`, which most wires do not need.
    ///
    /// # Errors
    /// `NETWORK_ERROR` if it is an end mark and the answer is incomplete.
    fn done_mark(&mut self, _out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        Ok(())
    }

    /// Handles the end of the connection.
    ///
    /// # Errors
    /// `NETWORK_ERROR` unless the end mark of the wire was received.
    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if is_done(out) { Ok(()) } else { Err(error::cut_off()) }
    }

    /// What the provider has counted so far; 0 where it has not.
    fn counted(&self) -> Usage {
        Usage::default()
    }

    /// Decodes a complete answer from a server that does not stream.
    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError>;
}

/// Whether the answer is complete.
pub(crate) fn is_done(events: &VecDeque<Event>) -> bool {
    matches!(events.back(), Some(Event::Done(_)))
}

/// Adds the next piece of a text to what was received of it before, and passes it on.
pub(crate) fn pass_on(
    more: String,
    received: &mut String,
    event: impl FnOnce(String) -> Event,
    out: &mut VecDeque<Event>,
) {
    if !more.is_empty() {
        received.push_str(&more);
        out.push_back(event(more));
    }
}

/// Passes on a complete answer. Several servers report the usual end of an answer together with tool calls.
pub(crate) fn done(mut answer: ModelAnswer, out: &mut VecDeque<Event>) {
    let is_call = |block: &Block| matches!(block, Block::ToolUse { .. });
    if answer.stop == StopReason::EndTurn && answer.content.iter().any(is_call) {
        answer.stop = StopReason::ToolUse;
    }
    out.push_back(Event::Done(Box::new(answer)));
}

/// A tool call being received.
#[derive(Default)]
pub(crate) struct Call {
    /// Its position among the calls of the answer.
    pub(crate) index: usize,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) json: String,
}

impl Call {
    /// A call without arguments yet; passes on that it starts.
    pub(crate) fn begin(index: usize, id: String, name: String, out: &mut VecDeque<Event>) -> Self {
        let call = Self { index, id, name, json: String::new() };
        call.start(out);
        call
    }

    /// Passes on that the call starts, with the id and the name it has now.
    pub(crate) fn start(&self, out: &mut VecDeque<Event>) {
        let Self { index, id, name, .. } = self;
        out.push_back(Event::ToolStart { index: *index, id: id.clone(), name: name.clone() });
    }

    /// Adds the next piece of the arguments.
    pub(crate) fn push(&mut self, more: String, out: &mut VecDeque<Event>) {
        let index = self.index;
        pass_on(more, &mut self.json, |json| Event::ToolArguments { index, json }, out);
    }

    /// The complete call. Arguments that are not a JSON object are added to `malformed`.
    pub(crate) fn block(self, raw: Option<RawBlock>, malformed: &mut Vec<(String, String)>) -> Block {
        let Self { id, name, json, .. } = self;
        let input = fields::input_of(&id, &json, malformed);
        Block::ToolUse { id, name, input, raw }
    }
}

/// Parses the JSON of a provider.
///
/// # Errors
/// The error that it reports, or `INVALID_RESPONSE`.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(json).map_err(|why| error::unreadable(json, &why))
}

impl<'a> Request<'a> {
    /// The tools for a model: those that are sent, and those that are deferred, if it searches for them itself. One that cannot be
    /// named as the tool to call is sent alone.
    pub(crate) fn tools_for(
        &self,
        model: &Description,
        profile: &Profile,
    ) -> (&'a [ToolDefinition], &'a [ToolDefinition]) {
        if !model.supports_tools {
            return (&[], &[]);
        }
        let forced =
            self.forced_tool(model).and_then(|name| self.tools.iter().position(|tool| tool.name == name));
        if let (Some(at), ForcedTool::Required | ForcedTool::Auto) = (forced, profile.forced_tool) {
            return (&self.tools[at..=at], &[]);
        }
        match self.deferred {
            Some(Deferred { tools, finding }) if searches_tools(profile) => {
                (&self.tools[..self.tools.len().saturating_sub(finding)], tools)
            }
            _ => (self.tools, &[]),
        }
    }

    /// Whether thinking is switched off because the model cannot think and be made to call a tool at once.
    pub(crate) fn is_unthinking(&self, model: &Description, profile: &Profile) -> bool {
        profile.forced_tool == ForcedTool::WithoutThinking && self.forced_tool(model).is_some()
    }
}

/// Whether the model finds deferred tools itself, and its wire can say that tools are deferred.
fn searches_tools(profile: &Profile) -> bool {
    profile.capabilities.tool_search == Some(true)
        && matches!(profile.wire, Wire::Anthropic | Wire::OpenAiResponses)
}

impl Wire {
    /// The body of a request, as JSON.
    pub(crate) fn encode(self, model: &Description, profile: &Profile, request: &Request<'_>) -> Vec<u8> {
        match self {
            Self::Anthropic => anthropic::encode(model, profile, request),
            Self::OpenAiChat => openai_chat::encode(model, profile, request),
            Self::OpenAiResponses => openai_responses::encode(model, profile, request),
            Self::Gemini => gemini::encode(model, profile, request),
            Self::Cohere => cohere::encode(model, profile, request),
            Self::Ollama => ollama::encode(model, profile, request),
        }
    }

    /// What it accepts in the schema of a tool's arguments.
    pub(crate) fn tool_rules(self) -> &'static tool_schema::Rules {
        match self {
            Self::Anthropic => &tool_schema::RULES.anthropic,
            Self::OpenAiChat | Self::OpenAiResponses => &tool_schema::RULES.openai,
            Self::Gemini => &tool_schema::RULES.gemini,
            Self::Cohere => &tool_schema::RULES.cohere,
            Self::Ollama => &tool_schema::RULES.ollama,
        }
    }

    /// Creates a decoder for one answer of `provider`.
    pub(crate) fn decoder(self, provider: &str, end: AnswerEnd) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic => Box::new(anthropic::stream::AnthropicDecoder::new(provider, end)),
            Self::OpenAiChat => Box::new(openai_chat::stream::ChatDecoder::new(provider, end)),
            Self::OpenAiResponses => Box::new(openai_responses::stream::ResponsesDecoder::new(provider)),
            Self::Gemini => Box::new(gemini::stream::GeminiDecoder::new(provider)),
            Self::Cohere => Box::new(cohere::stream::CohereDecoder::new(provider, end)),
            Self::Ollama => Box::new(ollama::stream::OllamaDecoder::new(provider, end)),
        }
    }

    /// How its streams are split into events.
    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Ollama => Framing::lines(),
            _ => Framing::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    mod context;
    mod forced;
}
