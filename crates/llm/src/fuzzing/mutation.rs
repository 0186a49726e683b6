//! Generates input similar to that of providers.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::wire::Wire;

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
    #[must_use]
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
#[must_use]
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
