//! What must hold of any bytes a provider may send, checked for those that a fuzzer makes up.
//!
//! The fuzzers are two: `cargo fuzz` with the targets of `crates/llm/fuzz`, which needs a nightly compiler and knows
//! what code was reached; and the example `fuzz`, which needs neither and mutates blindly, but the same way for
//! the same seed. Both begin with the examples in `crates/llm/fuzz/corpus`.

mod mutation;

use std::collections::{BTreeMap, VecDeque};

use houston_domain::history::Block;
use houston_domain::model::{ModelError, ModelTurn};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use reqwest::header::HeaderMap;

pub use self::mutation::{Mutator, corpus};
use crate::error;
use crate::framing::Reader;
use crate::model::Event;
use crate::wire::{Dialect, Wire};

/// The wires whose answers are decoded.
pub const WIRES: &[Wire] =
    &[Wire::Anthropic, Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Gemini, Wire::Cohere, Wire::Ollama];

/// What became of a stream: the events, and the error it ended with, if any.
pub type Decoded = (Vec<Event>, Option<ModelError>);

/// Decodes a stream and checks what must hold: it ends with an answer or an error, and with one alone; what was
/// told on the way is what the answer says; not much more comes out than went in; and no cut changes anything.
/// Also reads the bytes as an answer in one piece.
///
/// # Panics
/// When any of this does not hold.
pub fn check(wire: Wire, bytes: &[u8]) -> Decoded {
    let decoded = decode(wire, std::iter::once(bytes));
    check_end(&decoded);
    check_size(bytes, &decoded.0);
    if let Some(Event::Done(turn)) = decoded.0.last() {
        check_told(&decoded.0, turn);
    }
    assert_eq!(decode(wire, bytes.chunks(1)), decoded, "cut at every byte");
    let chunks = cuts(bytes);
    assert_eq!(decode(wire, chunks.into_iter()), decoded, "cut at random");

    let mut events = VecDeque::new();
    let failed = std::str::from_utf8(bytes)
        .ok()
        .map(|body| wire.decoder("x", Dialect::COMPATIBLE).whole(body, &mut events));
    if let Some(Ok(())) = failed {
        assert!(matches!(events.back(), Some(Event::Done(_))), "an answer in one piece without an end");
    }
    decoded
}

/// Classifies bytes as the body of a refusal and as an error in mid-stream, and checks that both are bounded.
///
/// # Panics
/// When they are not.
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
        assert!(error.message.chars().count() < 1000, "a long message");
        assert!(error.cause.is_none_or(|cause| cause.chars().count() < 2100), "a long cause");
        assert!(error.retry_after.is_none_or(|wait| wait.as_secs() <= 24 * 3600), "a long wait");
        assert!(error.retry_after.is_none() || error.code.is_retryable(), "a wait for nothing");
    }
}

/// Decodes the stream that is received in these pieces.
pub fn decode<'a>(wire: Wire, chunks: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut reader = Reader::new(wire.framing(), wire.decoder("x", Dialect::COMPATIBLE));
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

/// The bytes in pieces whose sizes follow from them.
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
    assert_eq!(ends, usize::from(last), "an end that is not the last event");
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
    // Numbers may be written out: 1e9 as 1000000000.0.
    assert!(written <= 8 * bytes.len() + 4096, "{written} bytes out of {}", bytes.len());
}

fn check_told(events: &[Event], turn: &ModelTurn) {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), BTreeMap::new());
    for event in events {
        match event {
            Event::Text(more) => text.push_str(more),
            Event::Thinking(more) => thinking.push_str(more),
            Event::ToolStart { index, id, name } => {
                let known = calls.insert(*index, (id.clone(), name.clone()));
                assert_eq!(known, None, "a call that begins twice");
            }
            Event::ToolArguments { index, .. } => {
                assert!(calls.contains_key(index), "arguments before their call");
            }
            Event::Done(_) => {}
            event => unreachable!("a decoder does not tell {event:?}"),
        }
    }
    let (mut done_text, mut done_thinking, mut done_calls) = (String::new(), String::new(), 0);
    for block in &turn.content {
        assert!(!matches!(block, Block::ToolResult { .. }), "a result from a model");
        match block {
            Block::Text { text, .. } => done_text.push_str(text),
            Block::Thinking { text, .. } => done_thinking.push_str(text),
            Block::ToolUse { id, name, input, .. } => {
                assert!(input.is_object(), "arguments that are no object");
                // A name may come before the id, and is told at once.
                let told = calls.get(&done_calls).filter(|(told, _)| told.is_empty() || told == id);
                assert_eq!(told.map(|(_, told)| told), Some(name), "a call that was not told");
                done_calls += 1;
            }
            Block::Opaque { .. } | Block::ToolResult { .. } => {}
        }
    }
    let (told, said) = ((text, thinking, calls.len()), (done_text, done_thinking, done_calls));
    assert_eq!(told, said, "told and said differ");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_hold_and_so_do_their_first_mutations() {
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
    fn the_same_seed_makes_the_same_bytes() {
        let made = |seed| {
            let mut mutator = Mutator::new(corpus(Wire::Ollama), seed);
            (0..20).map(|_| mutator.make()).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }
}
