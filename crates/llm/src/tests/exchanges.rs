//! Hand-written answers, one file per wire in `exchanges/`, with the expected result of decoding.
//!
//! An exchange starts with `==== <provider>: <what it shows>`. Its body follows, a stream or a complete answer, up to
//! `---- ` and the expected answer as JSON; omitted fields are empty or 0. With `open_end`, the body without its last
//! event is an answer as well, because the wire has no end mark.

use std::collections::VecDeque;

use houston_domain::history::Block;
use houston_domain::model::{BilledTokens, ModelAnswer, ModelError, PricedApart, StopReason};
use serde::Deserialize;
use serde_json::Value;

use crate::model::Event;
use crate::profile::{AnswerEnd, Profile};
use crate::protocol::Wire;
use crate::reader::Reader;

const FILES: [(Wire, &str); 6] = [
    (Wire::Anthropic, include_str!("../../exchanges/anthropic.txt")),
    (Wire::OpenAiChat, include_str!("../../exchanges/openai_chat.txt")),
    (Wire::OpenAiResponses, include_str!("../../exchanges/openai_responses.txt")),
    (Wire::Gemini, include_str!("../../exchanges/gemini.txt")),
    (Wire::Cohere, include_str!("../../exchanges/cohere.txt")),
    (Wire::Ollama, include_str!("../../exchanges/ollama.txt")),
];

struct Exchange {
    wire: Wire,
    /// `<wire>, <provider>: <what it shows>`
    name: String,
    provider: String,
    body: String,
    expected: Expected,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Expected {
    text: String,
    thinking: String,
    calls: Vec<(String, Value)>,
    stop: Option<StopReason>,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
    cost: Option<String>,
    billed: Option<(u64, u64)>,
    apart: PricedApart,
    error: Option<String>,
    status: Option<u16>,
    wait_s: Option<f64>,
    /// Part of the expected error message.
    message: Option<String>,
    open_end: bool,
}

impl Expected {
    fn of_answer(turn: &ModelAnswer) -> Self {
        let mut found = Self { stop: Some(turn.stop), ..Self::default() };
        for block in &turn.content {
            match block {
                Block::Text { text, .. } => found.text.push_str(text),
                Block::Thinking { text, .. } => found.thinking.push_str(text),
                Block::ToolUse { name, input, .. } => found.calls.push((name.clone(), input.clone())),
                Block::Opaque { .. } | Block::Image(_) | Block::Document(_) | Block::ToolResult { .. } => {}
            }
        }
        let usage = turn.usage;
        (found.input, found.output) = (usage.input_tokens, usage.output_tokens);
        (found.cache_read, found.cache_write) = (usage.cache_read_tokens, usage.cache_write_tokens);
        found.reasoning = usage.reasoning_tokens;
        found.cost = usage.cost.map(|cost| cost.to_string());
        found.apart = usage.apart;
        found.billed =
            usage.billed.map(|BilledTokens { input_tokens, output_tokens }| (input_tokens, output_tokens));
        found
    }

    /// The error code, with as much of the message as is expected.
    fn of_error(error: &ModelError, expected: &Self) -> Self {
        let message = match &expected.message {
            Some(part) if error.message.contains(part) => Some(part.clone()),
            Some(_) => Some(error.message.clone()),
            None => None,
        };
        Self {
            error: Some(error.code.as_str().to_owned()),
            status: error.status,
            wait_s: error.retry_after.map(|wait| wait.as_secs_f64()),
            message,
            ..Self::default()
        }
    }
}

fn exchanges() -> Vec<Exchange> {
    let mut found = Vec::new();
    for (wire, file) in FILES {
        for section in file.split("\n==== ").skip(1) {
            let (title, rest) = section.split_once('\n').unwrap();
            let (body, expected) = rest.split_once("---- ").unwrap();
            found.push(Exchange {
                wire,
                name: format!("{wire:?}, {title}"),
                provider: title.split_once(": ").unwrap().0.to_owned(),
                body: body.to_owned(),
                expected: serde_json::from_str(expected).unwrap_or_else(|error| panic!("{title}: {error}")),
            });
        }
    }
    found
}

impl Exchange {
    fn answer_end(&self) -> AnswerEnd {
        Profile::on(self.wire, &self.provider, "m").answer_end
    }

    fn reader(&self) -> Reader {
        Reader::new(self.wire.framing(), self.wire.decoder(&self.provider, self.answer_end()))
    }

    fn read<'a>(&self, chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Option<ModelError>) {
        let (mut reader, mut events) = (self.reader(), VecDeque::new());
        let error = chunks
            .map(|chunk| reader.push(chunk, &mut events))
            .find(Result::is_err)
            .unwrap_or(Ok(()))
            .and_then(|()| reader.end(&mut events))
            .err();
        (events.into(), error)
    }

    fn is_stream(&self) -> bool {
        self.body.contains("data: ") || self.wire == Wire::Ollama
    }
}

/// Compares the decoded answer with the expected one.
fn compare(exchange: &Exchange, events: &[Event], error: Option<&ModelError>) {
    let mut found = match (events.last(), error) {
        (Some(Event::Done(turn)), None) => Expected::of_answer(turn),
        (_, Some(error)) => Expected::of_error(error, &exchange.expected),
        other => panic!("{}: {other:?}", exchange.name),
    };
    found.open_end = exchange.expected.open_end;
    assert_eq!(found, exchange.expected, "{}", exchange.name);
}

#[test]
fn exchanges_decode_the_same_however_split() {
    let exchanges = exchanges();
    for exchange in &exchanges {
        let bytes = exchange.body.as_bytes();
        let (events, error) = exchange.read(std::iter::once(bytes));
        compare(exchange, &events, error.as_ref());
        for size in [1, 7] {
            let cut = exchange.read(bytes.chunks(size));
            assert_eq!(cut, (events.clone(), error.clone()), "{} in chunks of {size}", exchange.name);
        }
    }
    assert!(exchanges.len() > 80, "only {}", exchanges.len());
}

/// A byte that is not UTF-8, in the text of an answer, costs one character.
#[test]
fn one_invalid_byte_does_not_lose_an_answer() {
    for (wire, _) in FILES {
        let exchanges = exchanges();
        let of_wire = |exchange: &&Exchange| exchange.wire == wire && exchange.expected.error.is_none();
        let mut replayed = 0;
        for exchange in exchanges.iter().filter(of_wire) {
            let text: String = exchange.expected.text.chars().take(2).collect();
            // Neither damaged already, nor supplemented by the final event.
            let is_sound = text.len() == 2
                && !exchange.name.contains("lost")
                && !exchange.expected.text.contains('\u{fffd}');
            let at = exchange.body.find(&format!("\"{text}")).filter(|_| is_sound);
            let Some(at) = at else { continue };
            let mut bytes = exchange.body.clone().into_bytes();
            bytes.insert(at + 3, 0xe9);
            let (events, error) = exchange.read(bytes.chunks(7));
            let Some(Event::Done(turn)) = events.last() else { panic!("{}: {error:?}", exchange.name) };
            let found = Expected::of_answer(turn).text;
            assert_eq!(found.replacen('\u{fffd}', "", 1), exchange.expected.text, "{}", exchange.name);
            assert_eq!(found.matches('\u{fffd}').count(), 1, "{}", exchange.name);
            replayed += 1;
        }
        assert!(replayed > 0, "{wire:?}");
    }
}

#[test]
fn complete_exchanges_are_decoded() {
    let mut count = 0;
    for exchange in exchanges().iter().filter(|exchange| !exchange.is_stream()) {
        let mut events = VecDeque::new();
        let mut decoder = exchange.wire.decoder(&exchange.provider, exchange.answer_end());
        let error = decoder.whole_answer(&exchange.body, &mut events).err();
        compare(exchange, &Vec::from(events), error.as_ref());
        count += 1;
    }
    assert!(count >= 10, "only {count}");
}

#[test]
fn stream_cut_at_any_byte_is_a_network_error() {
    let mut cuts = 0;
    let of_streams = |exchange: &Exchange| exchange.is_stream() && exchange.expected.error.is_none();
    for exchange in exchanges().into_iter().filter(of_streams) {
        // From here on the answer is complete, or counts as complete.
        let body = &exchange.body;
        let after = |mark: &str| body.find(mark).map(|at| at + body[at..].find('\n').unwrap());
        let end = match exchange.wire {
            Wire::OpenAiChat if exchange.answer_end() == AnswerEnd::DoneMark => {
                body.find("[DONE]").unwrap() + 6
            }
            Wire::OpenAiChat => body.rfind("}\n").unwrap() + 1,
            Wire::Cohere => after("message-end").unwrap(),
            Wire::Anthropic => after("\"message_stop\"").unwrap(),
            _ => body.trim_end().len(),
        };
        for length in 0..end {
            let (events, error) = exchange.read(std::iter::once(&exchange.body.as_bytes()[..length]));
            let name = format!("{} after {length} bytes", exchange.name);
            if exchange.expected.open_end && error.is_none() {
                assert!(exchange.body[..length].contains("finishReason"), "{name}: {events:?}");
                continue;
            }
            let error = error.unwrap_or_else(|| panic!("{name}: accepted as an answer: {events:?}"));
            assert_eq!(error.code.as_str(), "NETWORK_ERROR", "{name}: {error}");
            cuts += 1;
        }
    }
    assert!(cuts > 5000, "only {cuts}");
}

#[test]
fn every_wire_maps_refusals() {
    let declined: Vec<Wire> = exchanges()
        .iter()
        .filter(|exchange| exchange.expected.stop == Some(StopReason::Refusal))
        .map(|exchange| exchange.wire)
        .collect();
    for (wire, _) in FILES {
        assert!(declined.contains(&wire), "{wire:?}");
    }
}
