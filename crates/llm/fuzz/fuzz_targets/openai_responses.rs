#![no_main]
//! Streams of this wire.

use houston_llm::{Wire, fuzzing};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzzing::check(Wire::OpenAiResponses, bytes);
});
