//! Properties of decoding that must hold for any bytes, checked by fuzzers.
//!
//! There are two fuzzers: `cargo fuzz` with the targets in `crates/llm/fuzz`, which needs a nightly compiler and is
//! guided by code coverage; and the example `fuzz`, which needs neither and mutates at random, reproducibly by seed.
//! Both start with the examples in `crates/llm/fuzz/corpus`.

mod mutation;

use std::collections::{BTreeMap, VecDeque};

use houston_domain::history::Block;
use houston_domain::model::{ModelAnswer, ModelError};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::header::HeaderMap;

pub use self::mutation::{Mutator, corpus};
use crate::error;
use crate::framing::Reader;
use crate::model::Event;
use crate::profile::AnswerEnd;
use crate::wire::Wire;

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
