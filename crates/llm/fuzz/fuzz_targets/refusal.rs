#![no_main]
//! Error bodies.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| houston_llm::fuzzing::check_refusal(bytes));
