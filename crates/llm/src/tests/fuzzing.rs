//! Properties of decoding that must hold for any bytes, checked by fuzzers.
//!
//! There are two fuzzers: `cargo fuzz` with the targets in `crates/llm/fuzz`, which needs a nightly compiler and is
//! guided by code coverage; and the example `fuzz`, which needs neither and mutates at random, reproducibly by seed.
//! Both start with the examples in `crates/llm/fuzz/corpus`.

use std::collections::{BTreeMap, VecDeque};

use houston_domain::history::Block;
use houston_domain::model::{ModelAnswer, ModelError};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::header::HeaderMap;

use crate::error;
use crate::model::Event;
use crate::profile::AnswerEnd;
use crate::protocol::Wire;
use crate::reader::Reader;

/// The wires whose decoders are checked.
pub const WIRES: &[Wire] =
    &[Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Gemini, Wire::Cohere, Wire::Ollama];

/// The result of decoding a stream: the events, and the error it ended with, if any.
pub type Decoded = (Vec<Event>, Option<ModelError>);

/// Decodes a stream and checks: it ends with exactly one answer or error; the events add up to the answer; the output
/// is not much larger than the input; and the result does not depend on how the bytes are split. Also decodes the
/// bytes as a complete answer.
///
/// # Panics
/// When any of these properties is violated.
pub fn check(wire: Wire, bytes: &[u8]) -> Decoded {
    let decoded = decode(wire, std::iter::once(bytes));
    check_end(&decoded);
    check_size(bytes, &decoded.0);
    if let Some(Event::Done(turn)) = decoded.0.last() {
        check_events_match_turn(wire, &decoded.0, turn);
    }
    assert_eq!(decode(wire, bytes.chunks(1)), decoded, "cut at every byte");
    let chunks = cuts(bytes);
    assert_eq!(decode(wire, chunks.into_iter()), decoded, "cut at random");

    let mut events = VecDeque::new();
    let failed = std::str::from_utf8(bytes)
        .ok()
        .map(|body| wire.decoder("x", AnswerEnd::DoneMark).whole_answer(body, &mut events));
    if let Some(Ok(())) = failed {
        assert!(matches!(events.back(), Some(Event::Done(_))), "a complete answer without `Done`");
    }
    decoded
}

/// Classifies the bytes as an error body and as an error within a stream, and checks that the results are bounded.
///
/// # Panics
/// When a result is not bounded.
pub fn check_refusal(bytes: &[u8]) {
    let status = bytes.first_chunk().map_or(400, |first| 400 + u16::from_le_bytes(*first) % 200);
    let mut headers = HeaderMap::new();
    for (name, value) in ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens", "date"]
        .iter()
        .zip(bytes.split(|byte| *byte == b'\n'))
    {
        if let Ok(value) = value.try_into() {
            headers.insert(*name, value);
        }
    }
    let refused = error::refused(status, &headers, bytes);
    let in_stream = error::in_stream(&String::from_utf8_lossy(bytes));
    for error in [refused, in_stream] {
        assert!(error.message.chars().count() < 1000, "the message is too long");
        assert!(error.cause.is_none_or(|cause| cause.chars().count() < 2100), "the cause is too long");
        assert!(error.retry_after.is_none_or(|wait| wait.as_secs() <= 24 * 3600), "the wait is too long");
        assert!(error.retry_after.is_none() || error.code.is_retryable(), "a permanent error has a wait");
    }
}

/// Decodes a stream received in the given pieces.
pub fn decode<'a>(wire: Wire, chunks: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut reader = Reader::new(wire.framing(), wire.decoder("x", AnswerEnd::DoneMark));
    let mut events = VecDeque::new();
    let result = read(&mut reader, chunks, &mut events);
    (events.into(), result.err())
}

fn read<'a>(
    reader: &mut Reader,
    chunks: impl Iterator<Item = &'a [u8]>,
    events: &mut VecDeque<Event>,
) -> Result<(), ModelError> {
    for chunk in chunks {
        reader.push(chunk, events)?;
        if matches!(events.back(), Some(Event::Done(_))) {
            return Ok(());
        }
    }
    reader.end(events)
}

/// Splits the bytes into pieces whose sizes are derived from them.
fn cuts(bytes: &[u8]) -> Vec<&[u8]> {
    let seed = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let (mut random, mut chunks, mut rest) = (StdRng::seed_from_u64(seed), Vec::new(), bytes);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(random.random_range(1..=rest.len().min(200)));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

fn check_end((events, error): &Decoded) {
    let ends = events.iter().filter(|event| matches!(event, Event::Done(_))).count();
    let last = matches!(events.last(), Some(Event::Done(_)));
    assert_eq!(ends, usize::from(last), "the end is not the last event");
    assert_eq!(last, error.is_none(), "neither an answer nor an error, or both");
}

fn check_size(bytes: &[u8], events: &[Event]) {
    let written: usize = events
        .iter()
        .map(|event| match event {
            Event::Text(text) | Event::Thinking(text) | Event::ToolArguments { json: text, .. } => text.len(),
            Event::ToolStart { id, name, .. } => id.len() + name.len(),
            _ => 0,
        })
        .sum();
    // Numbers may be written in full: 1e9 as 1000000000.0.
    assert!(written <= 8 * bytes.len() + 4096, "{written} bytes out of {}", bytes.len());
}

fn check_events_match_turn(wire: Wire, events: &[Event], turn: &ModelAnswer) {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), BTreeMap::new());
    for event in events {
        match event {
            Event::Text(more) => text.push_str(more),
            Event::Thinking(more) => thinking.push_str(more),
            Event::ToolStart { index, id, name } => {
                let previous = calls.insert(*index, (id.clone(), name.clone()));
                assert_eq!(previous, None, "a tool call starts twice");
            }
            Event::ToolArguments { index, .. } => {
                assert!(calls.contains_key(index), "arguments precede their tool call");
            }
            Event::Done(_) => {}
            event => unreachable!("a decoder never emits {event:?}"),
        }
    }
    let (mut done_text, mut done_thinking, mut done_calls) = (String::new(), String::new(), 0);
    for block in &turn.content {
        assert!(!matches!(block, Block::ToolResult { .. }), "an answer contains a tool result");
        match block {
            Block::Text { text, .. } => done_text.push_str(text),
            Block::Thinking { text, .. } => done_thinking.push_str(text),
            Block::ToolUse { id, name, input, .. } => {
                assert!(input.is_object(), "arguments are not an object");
                // A name may arrive before the id, and is emitted at once.
                let started =
                    calls.get(&done_calls).filter(|(start_id, _)| start_id.is_empty() || start_id == id);
                assert_eq!(
                    started.map(|(_, start_name)| start_name),
                    Some(name),
                    "a call without a start event"
                );
                done_calls += 1;
            }
            Block::Opaque { .. } | Block::Image(_) | Block::Document(_) | Block::ToolResult { .. } => {}
        }
    }
    let (streamed, final_answer) =
        ((&text, &thinking, calls.len()), (&done_text, &done_thinking, done_calls));
    // Parts of an answer may arrive interleaved. The answer then has them one after the other. The final event of Responses
    // repeats the answer, so that it may have what was lost of the events before.
    let may_add = wire == Wire::OpenAiResponses;
    let same = agree(&text, &done_text, may_add)
        && agree(&thinking, &done_thinking, may_add)
        && calls.len() == done_calls;
    assert!(same, "events and answer differ: {streamed:?}, {final_answer:?}");
}

/// Whether both texts have the same letters; with `may_add`, whether `answer` has all letters of `streamed`.
fn agree(streamed: &str, answer: &str, may_add: bool) -> bool {
    let (streamed, answer) = (letters(streamed), letters(answer));
    let mut rest = answer.iter();
    streamed.iter().all(|letter| rest.any(|other| other == letter))
        && (may_add || streamed.len() == answer.len())
}

fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}

/// Longest generated input, in bytes.
const LONGEST: usize = 16 << 10;

/// Words that decoders look for or are sensitive to.
const WORDS: &[&str] = &[
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "data: ",
    "event: error\n",
    "data: [DONE]\n\n",
    ": \n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "false",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "0.1",
    "\u{feff}",
    "é",
    "\"index\":",
    "\"error\":",
    "\"done\":true",
    "\"tool_calls\":",
    "\"arguments\":",
    "\"content\":",
    "\"thinking\":",
    "\"usage\":",
    "\"finish_reason\":",
    "\"type\":",
    "\"id\":",
    "\"name\":",
    "\"delta\":",
    "\"message\":",
    "\"citations\":",
    "\"signature\":",
    "\"input\":",
    "\"code\":429",
];

/// Mutates examples; the same seed generates the same inputs.
#[derive(Debug)]
pub struct Mutator {
    examples: Vec<Vec<u8>>,
    random: StdRng,
}

impl Mutator {
    /// # Panics
    /// When `examples` is empty.
    pub fn new(examples: Vec<Vec<u8>>, seed: u64) -> Self {
        assert!(!examples.is_empty(), "nothing to mutate");
        Self { examples, random: StdRng::seed_from_u64(seed) }
    }

    /// The next input: an example with a few mutations, usually one.
    pub fn make(&mut self) -> Vec<u8> {
        let mut bytes = self.examples.choose(&mut self.random).cloned().unwrap_or_default();
        let most = self.random.random_range(1..=5);
        for _ in 0..self.random.random_range(1..=most) {
            self.change(&mut bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let random = &mut self.random;
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(0..40)).min(bytes.len());
        match random.random_range(0..9) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.random_range(0..8);
                }
            }
            1 => drop(bytes.drain(at..end)),
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            3 => bytes.truncate(at),
            4 => {
                let other = self.examples.choose(random).map_or(&[][..], Vec::as_slice);
                let from = random.random_range(0..=other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
            5 => swap_lines(bytes, random),
            6 => {
                let value = WORDS.choose(random).copied().unwrap_or_default();
                replace_value(bytes, at, value.as_bytes());
            }
            _ => {
                let word = WORDS.choose(random).copied().unwrap_or_default();
                bytes.splice(at..at, word.bytes());
            }
        }
    }
}

fn swap_lines(bytes: &mut Vec<u8>, random: &mut StdRng) {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.len() > 1 {
        let (a, b) = (random.random_range(0..lines.len()), random.random_range(0..lines.len()));
        lines.swap(a, b);
        *bytes = lines.concat();
    }
}

/// Replaces the JSON value after the next colon by `value`.
fn replace_value(bytes: &mut Vec<u8>, at: usize, value: &[u8]) {
    let Some(colon) = bytes[at..].iter().position(|byte| *byte == b':') else { return };
    let start = at + colon + 1;
    let length = bytes[start..].iter().position(|byte| b",}]\n".contains(byte)).unwrap_or(0);
    bytes.splice(start..start + length, value.iter().copied());
}

/// The examples of a wire: short hand-written streams.
pub fn corpus(wire: Wire) -> Vec<Vec<u8>> {
    let text = match wire {
        Wire::Anthropic => include_str!("../../fuzz/corpus/anthropic.txt"),
        Wire::OpenAiChat => include_str!("../../fuzz/corpus/openai_chat.txt"),
        Wire::OpenAiResponses => include_str!("../../fuzz/corpus/openai_responses.txt"),
        Wire::Gemini => include_str!("../../fuzz/corpus/gemini.txt"),
        Wire::Cohere => include_str!("../../fuzz/corpus/cohere.txt"),
        Wire::Ollama => include_str!("../../fuzz/corpus/ollama.txt"),
    };
    text.split("====\n").map(|example| example.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_and_its_first_mutations_pass() {
        for wire in WIRES {
            let examples = corpus(*wire);
            assert!(examples.iter().any(|example| check(*wire, example).1.is_none()), "{wire:?}: no answer");
            let mut mutator = Mutator::new(examples, 7);
            let (mut answers, mut errors) = (0, 0);
            for _ in 0..1500 {
                let bytes = mutator.make();
                check_refusal(&bytes);
                if check(*wire, &bytes).1.is_none() { answers += 1 } else { errors += 1 }
            }
            println!("{wire:?}: {answers} answers, {errors} errors");
            assert!(answers > 50 && errors > 50, "{wire:?}: the mutations are too mild or too wild");
        }
    }

    #[test]
    fn same_seed_generates_the_same_inputs() {
        let generated = |seed| {
            let mut mutator = Mutator::new(corpus(Wire::Ollama), seed);
            (0..20).map(|_| mutator.make()).collect::<Vec<_>>()
        };
        assert_eq!(generated(1), generated(1));
        assert_ne!(generated(1), generated(2));
    }
}
