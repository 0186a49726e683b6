//! Decodes the events of a response, whose types are those of complete answers, too.

use std::borrow::Cow;
use std::collections::VecDeque;

use houston_domain::history::{Block, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, StopReason, Tier, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::NAME;
use crate::error;
use crate::model::Event;
use crate::scrub::shortened;
use crate::wire::fields::{Arguments, Count, Lenient, Text, is_error, null_is_default};
use crate::wire::openai::{ReportedUsage, normalised, small};
use crate::wire::{Call, Decoder, done, pass_on, read};

/// An event of a stream; its `type` determines the other fields. Other events use the same field names with other
/// types, so values are parsed when the type is known.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamEvent<'a> {
    /// Empty if the data is not an event of this wire.
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    output_index: Count,
    summary_index: Count,
    delta: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    item: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// An answer, complete or partial.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer<'a> {
    status: Text,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    usage: Lenient<Option<ReportedUsage>>,
    service_tier: Text,
    incomplete_details: Lenient<IncompleteDetails>,
    error: Option<&'a RawValue>,
}

impl Answer<'_> {
    /// What it used, if that is reported.
    fn usage(&self) -> Option<Usage> {
        let tier = self.service_tier.0.as_deref().and_then(Tier::named);
        self.usage.0.map(|usage| Usage { tier, ..normalised(usage) })
    }
}

/// Why an answer is incomplete.
#[derive(Default, Deserialize)]
#[serde(default)]
struct IncompleteDetails {
    reason: Text,
}

/// The type of an item, which determines its other fields.
#[derive(Deserialize)]
struct ItemKind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// A call of one of Houston's tools.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FunctionCall {
    call_id: Text,
    name: Text,
    arguments: Arguments,
}

/// A message or reasoning.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemContent<'a> {
    #[serde(borrow, deserialize_with = "null_is_default")]
    content: Vec<Part<'a>>,
    #[serde(deserialize_with = "null_is_default")]
    summary: Vec<Part<'a>>,
    phase: Text,
    encrypted_content: Option<&'a RawValue>,
}

/// A part of a message or of reasoning. Its text was usually received in pieces before and is not parsed again.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    #[serde(deserialize_with = "null_is_default")]
    annotations: Vec<&'a RawValue>,
}

impl Part<'_> {
    /// Whether the model or the provider's filter refused.
    fn is_refusal(&self) -> bool {
        self.refusal.is_some_and(|refusal| !matches!(refusal.get(), "null" | "\"\""))
    }

    fn text(&self) -> Option<String> {
        serde_json::from_str(self.text.or(self.refusal)?.get()).ok()
    }
}

/// Assembles one answer.
#[derive(Default)]
pub(crate) struct ResponsesDecoder {
    provider: Box<str>,
    /// Items with their index in the provider's list, in the order in which they were opened.
    items: Vec<(u64, OpenItem)>,
    calls: usize,
    refused: bool,
    counted: Usage,
}

/// An item being received.
enum OpenItem {
    Message {
        text: String,
        raw: Option<RawBlock>,
    },
    Reasoning {
        text: String,
        /// The last section of the summary received so far.
        section: u64,
        raw: Option<RawBlock>,
    },
    Call(Call),
    /// Anything else, stored unchanged once it is complete.
    Opaque {
        raw: Option<RawBlock>,
        /// Whether it is a search in the web.
        is_search: bool,
    },
}

impl OpenItem {
    /// Whether `item`, of the final answer, is this item. Only items of its kind are compared.
    fn is(&self, kind: &str, item: &RawValue) -> bool {
        match (self, kind) {
            (Self::Message { .. }, "message") | (Self::Reasoning { .. }, "reasoning") => true,
            (Self::Call(Call { id, .. }), "function_call") => {
                let call = read::<FunctionCall>(item.get()).ok();
                let theirs = call.and_then(|call| call.call_id.0).unwrap_or_default();
                id.is_empty() || theirs.is_empty() || *id == theirs
            }
            (Self::Opaque { .. }, kind) => !matches!(kind, "message" | "reasoning" | "function_call"),
            _ => false,
        }
    }
}

impl ResponsesDecoder {
    pub(crate) fn new(provider: &str) -> Self {
        Self { provider: provider.into(), ..Self::default() }
    }

    /// The position of the item with this index; the last item if the server sends no index.
    fn position_of(&self, number: Option<u64>) -> Option<usize> {
        match number {
            Some(number) => self.items.iter().rposition(|(open, _)| *open == number),
            None => self.items.len().checked_sub(1),
        }
    }

    fn open(&mut self, number: Option<u64>, item: OpenItem) -> &mut OpenItem {
        let number = number.unwrap_or(self.items.len() as u64);
        &mut self.items.push_mut((number, item)).1
    }

    fn begin(
        &mut self,
        number: Option<u64>,
        item: &RawValue,
        out: &mut VecDeque<Event>,
    ) -> Result<usize, ModelError> {
        let opened = match &*read::<ItemKind<'_>>(item.get())?.kind {
            "message" => OpenItem::Message { text: String::new(), raw: None },
            "reasoning" => OpenItem::Reasoning { text: String::new(), section: 0, raw: None },
            "function_call" => {
                let FunctionCall { call_id, name, .. } = read(item.get())?;
                let (id, name) = (call_id.0.unwrap_or_default(), name.0.unwrap_or_default());
                self.calls += 1;
                OpenItem::Call(Call::begin(self.calls - 1, id, name, out))
            }
            kind => OpenItem::Opaque { raw: None, is_search: kind == WEB_SEARCH },
        };
        self.open(number, opened);
        Ok(self.items.len() - 1)
    }

    /// Handles a complete item and emits what was not emitted before.
    fn complete(
        &mut self,
        number: Option<u64>,
        item: &RawValue,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        let position = match self.position_of(number) {
            Some(position) => position,
            None => self.begin(number, item, out)?,
        };
        let raw_block = || Some(RawBlock::new(NAME, &self.provider, item.get()));
        match &mut self.items[position].1 {
            OpenItem::Message { text, raw } => {
                let parsed: ItemContent<'_> = read(item.get())?;
                let refusals = parsed.content.iter().filter(|part| part.is_refusal()).count();
                self.refused |= refusals > 0;
                let cites = parsed.content.iter().any(|part| !part.annotations.is_empty());
                let whole: String = parsed.content.iter().filter_map(|part| part.text()).collect();
                if let Some(rest) = supplement(text, whole) {
                    out.push_back(Event::Text(rest));
                }
                if raw.is_none() && refusals == 0 && (cites || parsed.phase.0.is_some()) {
                    *raw = raw_block();
                }
            }
            OpenItem::Reasoning { text, raw, .. } => {
                let parsed: ItemContent<'_> = read(item.get())?;
                // Open models send reasoning as text, others encrypt it. Reasoning with neither is only an id, which
                // is useless to a server that stores nothing.
                let sealed = parsed.encrypted_content.is_some_and(|sealed| sealed.get() != "\"\"");
                // The final answer has it encrypted anew: what was received first stays.
                if raw.is_none() && (sealed || !parsed.content.is_empty()) {
                    *raw = raw_block();
                }
                let parts = if parsed.content.is_empty() { &parsed.summary } else { &parsed.content };
                let sections: Vec<String> = parts.iter().filter_map(|part| part.text()).collect();
                if let Some(rest) = supplement(text, sections.join(SECTION_BREAK)) {
                    out.push_back(Event::Thinking(rest));
                }
            }
            OpenItem::Call(call) => {
                emit_arguments(call, read::<FunctionCall>(item.get())?.arguments, out);
            }
            OpenItem::Opaque { raw, .. } => *raw = raw.take().or_else(raw_block),
        }
        Ok(())
    }

    /// Adds what the final answer has and no event before had. An item is recognised by its kind and its place among the
    /// items of its kind, a call by its id: some servers count items otherwise in the stream, or change their ids.
    fn complete_all(&mut self, output: &[&RawValue], out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let mut open: Vec<usize> = (0..self.items.len()).collect();
        for item in output {
            let kind = &*read::<ItemKind<'_>>(item.get())?.kind;
            let found = open.iter().position(|position| self.items[*position].1.is(kind, item));
            let number = match found {
                Some(found) => self.items[open.remove(found)].0,
                None => self.items.iter().map(|(number, _)| number + 1).max().unwrap_or(0),
            };
            self.complete(Some(number), item, out)?;
        }
        Ok(())
    }

    /// The next piece of a message.
    fn push_text(&mut self, number: Option<u64>, more: String, out: &mut VecDeque<Event>) {
        let item = match self.position_of(number) {
            Some(position) => &mut self.items[position].1,
            None => self.open(number, OpenItem::Message { text: String::new(), raw: None }),
        };
        if let OpenItem::Message { text, .. } = item {
            pass_on(more, text, Event::Text, out);
        }
    }

    /// The next piece of reasoning. Sections of a summary are separated by a blank line.
    fn push_reasoning(&mut self, event: &StreamEvent<'_>, mut more: String, out: &mut VecDeque<Event>) {
        let number = event.output_index.0;
        let item = match self.position_of(number) {
            Some(position) => &mut self.items[position].1,
            None => self.open(number, OpenItem::Reasoning { text: String::new(), section: 0, raw: None }),
        };
        let OpenItem::Reasoning { text, section, .. } = item else { return };
        if more.is_empty() {
            return;
        }
        let of = event.summary_index.0.unwrap_or(*section);
        if of != std::mem::replace(section, of) && !text.is_empty() {
            more.insert_str(0, SECTION_BREAK);
        }
        pass_on(more, text, Event::Thinking, out);
    }

    fn call(&mut self, event: &StreamEvent<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let Some(position) = self.position_of(event.output_index.0) else { return Ok(()) };
        let OpenItem::Call(call) = &mut self.items[position].1 else { return Ok(()) };
        match event.arguments {
            Some(whole) => emit_arguments(call, read(whole.get())?, out),
            None => call.push(piece(event)?, out),
        }
        Ok(())
    }

    /// Completes the answer. `stop` is set if the answer is incomplete.
    fn finish(
        &mut self,
        answer: &Answer<'_>,
        stop: Option<StopReason>,
        out: &mut VecDeque<Event>,
    ) -> Result<(), ModelError> {
        self.complete_all(answer.output.as_deref().unwrap_or_default(), out)?;
        let (mut content, mut malformed) = (Vec::new(), Vec::new());
        let is_search = |item: &OpenItem| matches!(item, OpenItem::Opaque { is_search: true, .. });
        let searches = self.items.iter().filter(|(_, item)| is_search(item)).count();
        for (_, item) in std::mem::take(&mut self.items) {
            content.extend(block_of(item, &mut malformed));
        }
        let mut usage = answer.usage().unwrap_or_default();
        usage.apart.web_searches = usage.apart.web_searches.max(small(searches as u64));
        let has_refused = self.refused && self.calls == 0;
        let stop = stop.unwrap_or(if has_refused { StopReason::Refusal } else { StopReason::EndTurn });
        done(ModelAnswer { content, malformed, stop, usage }, out);
        Ok(())
    }

    /// Handles the final response object.
    fn answer(&mut self, answer: &Answer<'_>, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.counted = answer.usage().unwrap_or_default();
        if let Some(failure) = answer.error.filter(|failure| is_error(Some(failure))) {
            return Err(reported(failure));
        }
        match answer.status.0.as_deref() {
            Some("incomplete") => {
                let stop = match answer.incomplete_details.0.reason.0.as_deref() {
                    Some("content_filter") => StopReason::Refusal,
                    _ => StopReason::MaxTokens,
                };
                self.finish(answer, Some(stop), out)
            }
            None | Some("completed") => self.finish(answer, None, out),
            Some(status @ ("failed" | "cancelled")) => Err(error::broken_off(status)),
            Some(other) => {
                Err(error::invalid(format!("the response has the status `{}`", shortened(other, 40))))
            }
        }
    }
}

/// The error contained in a response.
fn reported(failure: &RawValue) -> ModelError {
    error::in_stream(&format!("{{\"error\":{failure}}}"))
}

/// Separates two sections of a summary.
const SECTION_BREAK: &str = "\n\n";

/// The type of the item for a search in the web.
const WEB_SEARCH: &str = "web_search_call";

/// Takes over a text that was received as a `whole` at last. Returns the rest that its pieces, received before, lack at their
/// end. If a piece in the middle was lost, the text is `whole` from now on, and nothing is returned: what was passed on
/// cannot be taken back. Any other difference leaves the pieces as they are.
fn supplement(pieces: &mut String, whole: String) -> Option<String> {
    let rest = whole.strip_prefix(pieces.as_str()).map(str::to_owned);
    if rest.is_some() || is_subsequence(pieces, &whole) {
        *pieces = whole;
    }
    rest.filter(|rest| !rest.is_empty())
}

/// Whether `part` is left of `whole` when some of its characters are removed.
fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|wanted| rest.any(|character| character == wanted))
}

/// Emits what of the arguments was not received in pieces before.
fn emit_arguments(call: &mut Call, whole: Arguments, out: &mut VecDeque<Event>) {
    if let Some(json) = supplement(&mut call.json, whole.0) {
        out.push_back(Event::ToolArguments { index: call.index, json });
    }
}

/// The completed block; `None` when it is empty.
fn block_of(item: OpenItem, malformed: &mut Vec<(String, String)>) -> Option<Block> {
    match item {
        OpenItem::Message { text, raw } => (!text.is_empty()).then_some(Block::Text { text, raw }),
        OpenItem::Reasoning { text, raw, .. } => {
            (raw.is_some() || !text.is_empty()).then_some(Block::Thinking { text, raw })
        }
        OpenItem::Call(call) => Some(call.block(None, malformed)),
        OpenItem::Opaque { raw, .. } => raw.map(|raw| Block::Opaque { raw }),
    }
}

/// The text added by an event.
fn piece(event: &StreamEvent<'_>) -> Result<String, ModelError> {
    event.delta.map_or_else(|| Ok(String::new()), |delta| read(delta.get()))
}

impl Decoder for ResponsesDecoder {
    fn chunk(&mut self, data: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let event: StreamEvent<'_> = read(data)?;
        let nothing = RawValue::NULL;
        match &*event.kind {
            "response.output_item.added" => {
                self.begin(event.output_index.0, event.item.unwrap_or(nothing), out)?;
            }
            "response.output_item.done" => {
                self.complete(event.output_index.0, event.item.unwrap_or(nothing), out)?;
            }
            "response.output_text.delta" => self.push_text(event.output_index.0, piece(&event)?, out),
            "response.refusal.delta" => {
                let refusal = piece(&event)?;
                self.refused |= !refusal.trim().is_empty();
                self.push_text(event.output_index.0, refusal, out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.push_reasoning(&event, piece(&event)?, out);
            }
            "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
                self.call(&event, out)?;
            }
            "response.completed" | "response.incomplete" => {
                self.answer(&read(event.response.unwrap_or(nothing).get())?, out)?;
            }
            "response.failed" | "response.cancelled" => {
                let failure = read::<Answer<'_>>(event.response.unwrap_or(nothing).get()).ok();
                // A failed answer may have used something.
                self.counted = failure.as_ref().and_then(Answer::usage).unwrap_or_default();
                let failure = failure.and_then(|answer| answer.error).filter(|error| is_error(Some(error)));
                return Err(failure.map_or_else(|| error::broken_off(&event.kind), reported));
            }
            "error" => return Err(error::in_stream(data)),
            "" if is_error(event.error) || error::reported(data).is_some() => {
                return Err(error::in_stream(data));
            }
            // Progress of the provider's tools, repeated texts, and events added to the API later.
            _ => {}
        }
        Ok(())
    }

    fn counted(&self) -> Usage {
        self.counted
    }

    fn whole_answer(&mut self, body: &str, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        match serde_json::from_str::<Answer<'_>>(body) {
            Ok(answer) if answer.output.is_some() => self.answer(&answer, out),
            _ => Err(error::in_stream(body)),
        }
    }
}
