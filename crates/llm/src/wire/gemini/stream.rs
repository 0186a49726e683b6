//! Decodes the chunks of an answer, which have the same form as a complete answer.

use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, PricedApart, StopReason, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::scrub::shortened;
use crate::wire::fields::{Count, Lenient, Pieces, Text, is_error, null_is_default};
use crate::wire::identifier::of_letter_name;
use crate::wire::object::{Object, list};
use crate::wire::openai::{clamped, small};
use crate::wire::{Call, Decoder, done, is_done, read};

/// A chunk, or a complete answer.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    candidates: Vec<Candidate<'a>>,
    prompt_feedback: Lenient<PromptFeedback>,
    usage_metadata: Lenient<ReportedUsage>,
    error: Option<&'a RawValue>,
}

/// A candidate answer. Only the first one is read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate<'a> {
    index: Count,
    #[serde(borrow, deserialize_with = "null_is_default")]
    content: Content<'a>,
    finish_reason: Text,
    finish_message: Text,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    parts: Vec<&'a RawValue>,
}

/// A part; its kind shows in which field is set.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part<'a> {
    text: Text,
    thought: Lenient<bool>,
    #[serde(borrow)]
    thought_signature: Option<&'a RawValue>,
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FunctionCall<'a> {
    id: Text,
    name: Text,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    /// Announces further arguments of the call. Houston does not request partial arguments.
    will_continue: Lenient<bool>,
    partial_args: Option<&'a RawValue>,
}

/// Why the prompt was blocked.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Text,
}

/// Usage as reported. Counts are cumulative; a missing count keeps its previous value.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReportedUsage {
    prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    cached_content_token_count: Count,
    tool_use_prompt_token_count: Count,
    prompt_tokens_details: ByKind,
    tool_use_prompt_tokens_details: ByKind,
    cache_tokens_details: ByKind,
    candidates_tokens_details: ByKind,
}

/// Tokens that are priced otherwise than text, from a list of `{"modality": "AUDIO", "tokenCount": 7}`. Documents are
/// priced as images.
#[derive(Clone, Copy, Default)]
struct ByKind {
    audio: u64,
    image: u64,
}

impl<'de> Deserialize<'de> for ByKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Entry {
            modality: Text,
            token_count: Count,
        }
        let mut sums = Self::default();
        for Entry { modality, token_count } in Pieces::<Entry>::deserialize(deserializer)?.0 {
            match modality.0.as_deref() {
                Some("AUDIO") => sums.audio += token_count.or_zero(),
                Some("IMAGE" | "DOCUMENT") => sums.image += token_count.or_zero(),
                _ => {}
            }
        }
        Ok(sums)
    }
}

impl ReportedUsage {
    /// Merges a later report.
    fn update(&mut self, later: Self) {
        self.prompt_token_count = self.prompt_token_count.updated(later.prompt_token_count);
        self.candidates_token_count = self.candidates_token_count.updated(later.candidates_token_count);
        self.thoughts_token_count = self.thoughts_token_count.updated(later.thoughts_token_count);
        self.cached_content_token_count =
            self.cached_content_token_count.updated(later.cached_content_token_count);
        self.tool_use_prompt_token_count =
            self.tool_use_prompt_token_count.updated(later.tool_use_prompt_token_count);
        for (known, later) in [
            (&mut self.prompt_tokens_details, later.prompt_tokens_details),
            (&mut self.tool_use_prompt_tokens_details, later.tool_use_prompt_tokens_details),
            (&mut self.cache_tokens_details, later.cache_tokens_details),
            (&mut self.candidates_tokens_details, later.candidates_tokens_details),
        ] {
            known.audio = known.audio.max(later.audio);
            known.image = known.image.max(later.image);
        }
    }

    /// Converts to Houston's [`Usage`]: Gemini reports thoughts separately from the output, and the results of its
    /// own tools separately from the prompt.
    fn normalised(self) -> Usage {
        let input_tokens = self.prompt_token_count.or_zero() + self.tool_use_prompt_token_count.or_zero();
        let thoughts = self.thoughts_token_count.or_zero();
        let (sent, searched) = (self.prompt_tokens_details, self.tool_use_prompt_tokens_details);
        let (cached, received) = (self.cache_tokens_details, self.candidates_tokens_details);
        clamped(Usage {
            input_tokens,
            output_tokens: self.candidates_token_count.or_zero() + thoughts,
            cache_read_tokens: self.cached_content_token_count.or_zero().min(input_tokens),
            reasoning_tokens: thoughts,
            apart: PricedApart {
                input_audio_tokens: small(sent.audio + searched.audio),
                cached_audio_tokens: small(cached.audio),
                output_audio_tokens: small(received.audio),
                input_image_tokens: small(sent.image + searched.image),
                cached_image_tokens: small(cached.image),
                output_image_tokens: small(received.image),
                web_searches: 0,
            },
            ..Usage::default()
        })
    }
}

/// The stop reason; `None` when no finish reason is given.
///
/// # Errors
/// `INVALID_RESPONSE` when the model failed (a malformed or forbidden tool call), and for an unknown reason: Google's
/// list is closed. `message` is included in the error.
fn stop_reason(finish_reason: &str, message: Option<&str>) -> Result<Option<StopReason>, ModelError> {
    let stop = match finish_reason {
        "" | "FINISH_REASON_UNSPECIFIED" => return Ok(None),
        "STOP" => StopReason::EndTurn,
        // Not in Google's enum, but sent by gateways for an answer with tool calls.
        "FUNCTION_CALL" => StopReason::ToolUse,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refusal,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE"
        | "NO_IMAGE"
        | "OTHER"
        | "IMAGE_OTHER" => {
            let why = shortened(message.unwrap_or("no explanation given"), LONGEST_EXPLANATION);
            return Err(error::invalid(format!("the model failed: {finish_reason}: {why}")));
        }
        _ => return Err(error::unknown_end(finish_reason)),
    };
    Ok(Some(stop))
}

/// Longest quoted explanation of the provider, in characters.
const LONGEST_EXPLANATION: usize = 300;

/// Assembles one answer.
#[derive(Default)]
pub(crate) struct GeminiDecoder {
    provider: Box<str>,
    /// Completed blocks.
    content: Vec<Block>,
    /// The text being received.
    text: Option<Received>,
    thought: String,
    calls: usize,
    malformed: Vec<(String, String)>,
    usage: ReportedUsage,
    stop: Option<StopReason>,
}

/// Consecutive parts of a text.
#[derive(Default)]
struct Received {
    text: String,
    /// Length of the text passed on so far, in bytes. Blank text is held back until something follows it: blank text
    /// alone is not an answer.
    reported: usize,
    /// Start and end of the signed parts in the text, with their raw form.
    signed: Vec<(usize, usize, Box<RawValue>)>,
}

impl Received {
    /// The completed block; `None` when it is empty. A signature on an empty text is kept.
    fn block(self, provider: &str) -> Option<Block> {
        let raw = (!self.signed.is_empty()).then(|| RawBlock::new(NAME, provider, self.parts()));
        if self.text.trim().is_empty() {
            raw.map(|raw| Block::Opaque { raw })
        } else {
            Some(Block::Text { text: self.text, raw })
        }
    }

    /// The list of its parts: signed ones unchanged, the text between them joined.
    fn parts(&self) -> String {
        let plain = |text: &str| Object::new().with("text", text).end();
        let (mut pieces, mut done) = (Vec::new(), 0);
        for (start, end, part) in &self.signed {
            if *start > done {
                pieces.push(plain(&self.text[done..*start]));
            }
            pieces.push(part.get().into());
            done = *end;
        }
        if self.text.len() > done {
            pieces.push(plain(&self.text[done..]));
        }
        String::from_utf8(list(pieces)).unwrap_or_default()
    }
}

impl GeminiDecoder {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.into(), ..Self::default() }
    }

    fn candidate(&mut self, candidate: &Candidate<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        for part in &candidate.content.parts {
            // A finish reason before this part was not the end.
            self.stop = None;
            self.part(part, out)?;
        }
        let reason = candidate.finish_reason.trimmed().to_ascii_uppercase();
        // The tool result will report that the tool does not exist.
        if reason == "UNEXPECTED_TOOL_CALL" && self.calls > 0 {
            self.stop = Some(StopReason::ToolUse);
            return Ok(());
        }
        self.stop = stop_reason(&reason, candidate.finish_message.0.as_deref())?.or(self.stop);
        Ok(())
    }

    fn part(&mut self, raw: &RawValue, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let part: Part<'_> = read(raw.get())?;
        let signed = part.thought_signature.is_some();
        match (part.text.0, part.function_call) {
            (_, Some(call)) => self.call(raw, signed, &call, out)?,
            (Some(thought), None) if part.thought.0 => self.push_thought(thought, signed.then_some(raw), out),
            (Some(text), None) => self.push_text(text, signed.then_some(raw), out),
            // Anything else is stored unchanged: code executed by the provider and its results, the provider's tools,
            // images, and signatures alone.
            (None, None) => {
                self.close();
                self.content.push(Block::Opaque { raw: self.raw_block(raw) });
            }
        }
        Ok(())
    }

    fn push_thought(&mut self, thought: String, signed: Option<&RawValue>, out: &mut VecDeque<Event>) {
        self.close_text();
        self.thought.push_str(&thought);
        if let Some(raw) = signed {
            let raw = Some(self.raw_block(raw));
            self.content.push(Block::Thinking { text: std::mem::take(&mut self.thought), raw });
        }
        if !thought.is_empty() {
            out.push_back(Event::Thinking(thought));
        }
    }

    fn push_text(&mut self, more: String, signed: Option<&RawValue>, out: &mut VecDeque<Event>) {
        if more.is_empty() && signed.is_none() {
            return;
        }
        self.close_thought();
        let Received { text, reported, signed: parts } = self.text.get_or_insert_default();
        let start = text.len();
        text.push_str(&more);
        parts.extend(signed.map(|raw| (start, text.len(), raw.to_owned())));
        if !text.trim().is_empty() && *reported < text.len() {
            out.push_back(Event::Text(text[*reported..].to_owned()));
            *reported = text.len();
        }
    }

    fn call(
        &mut self,
        raw: &RawValue,
        signed: bool,
        call: &FunctionCall<'_>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        if call.will_continue.0 || call.partial_args.is_some() {
            return Err(error::invalid("the provider sent a tool call in pieces, which was not requested"));
        }
        self.close();
        let id = call.id.0.clone().unwrap_or_default();
        let name = of_letter_name(call.name.0.as_deref().unwrap_or_default()).to_owned();
        self.calls += 1;
        let raw = (signed || !id.is_empty()).then(|| self.raw_block(raw));
        let mut received = Call::begin(self.calls - 1, id, name, out);
        received.push(call.args.map_or("", RawValue::get).to_owned(), out);
        self.content.push(received.block(raw, &mut self.malformed));
        Ok(())
    }

    fn raw_block(&self, raw: &RawValue) -> RawBlock {
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

    /// Unsigned thoughts are stored for display only: Gemini does not need them back.
    fn close_thought(&mut self) {
        if !self.thought.is_empty() {
            let text = std::mem::take(&mut self.thought);
            self.content.push(Block::Thinking { text, raw: None });
        }
    }

    /// Completes the answer after its end. A complete answer (`whole`) without a finish reason counts as finished if
    /// it contains text or a call.
    fn finish(&mut self, whole: bool, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if is_done(out) {
            return Ok(());
        }
        let says_something = self.calls > 0
            || self.text.as_ref().is_some_and(|text| text.reported > 0)
            || self.content.iter().any(|block| matches!(block, Block::Text { .. }));
        let stop = self.stop.or((whole && says_something).then_some(StopReason::EndTurn));
        let stop = stop.ok_or_else(error::cut_off)?;
        self.close();
        let content = std::mem::take(&mut self.content);
        let malformed = std::mem::take(&mut self.malformed);
        let usage = self.usage.normalised();
        done(ModelAnswer { content, malformed, stop, usage }, out);
        Ok(())
    }
}

impl Decoder for GeminiDecoder {
    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let chunk: Chunk<'_> = read(data)?;
        if is_error(chunk.error) {
            return Err(error::in_stream(data));
        }
        self.usage.update(chunk.usage_metadata.0);
        if chunk.prompt_feedback.0.block_reason.0.is_some() {
            self.stop = Some(StopReason::Refusal);
        }
        // Houston requests only one candidate.
        let mut first = chunk.candidates.iter().filter(|candidate| candidate.index.or_zero() == 0);
        first.try_for_each(|candidate| self.candidate(candidate, out))
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.finish(false, out)
    }

    fn counted(&self) -> Usage {
        self.usage.normalised()
    }

    /// One answer, or the array of chunks that Gemini sends without `alt=sse`.
    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        match serde_json::from_str::<Vec<&RawValue>>(body) {
            Ok(chunks) => chunks.iter().try_for_each(|chunk| self.chunk(chunk.get(), out))?,
            Err(_) => self.chunk(body, out)?,
        }
        self.finish(true, out)
    }
}
