#![no_main]
//! Streams of one wire.

use houston_llm::{Wire, fuzzing};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzzing::check(Wire::Gemini, bytes);
});
