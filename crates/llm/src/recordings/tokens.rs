use serde_json::Value;

use super::{are_here, recordings};
use crate::tokens::estimate;

/// Every text of a value, but not the names of its fields; schemas as they stand, as models read them.
fn texts(value: &Value, found: &mut u64) {
    match value {
        Value::String(text) => *found += estimate(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "parameters" | "input_schema" | "parametersJsonSchema" => {
                        *found += estimate(&value.to_string())
                    }
                    // What is no text of the conversation, and what is not charged.
                    "model" | "type" | "role" | "signature" | "id" | "tool_use_id" | "tool_call_id"
                    | "thoughtSignature" | "include" | "stream_options" | "tool_choice" => {}
                    _ => texts(value, found),
                }
            }
        }
        _ => {}
    }
}

/// The largest count of input tokens a recorded answer reports, cache included.
fn reported(body: &str) -> Option<u64> {
    let numbers = |name: &str| -> u64 {
        let mark = format!("\"{name}\":");
        let marked = body.split(&mark).skip(1);
        let number = |rest: &str| {
            let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().ok()
        };
        marked.filter_map(number).max().unwrap_or(0)
    };
    let anthropic =
        numbers("input_tokens") + numbers("cache_read_input_tokens") + numbers("cache_creation_input_tokens");
    let most = anthropic.max(numbers("prompt_tokens")).max(numbers("promptTokenCount"));
    (most > 0).then_some(most)
}

/// Recordings whose request does not hold all that was charged: results of the provider's own search, a cache made
/// earlier, tools described by the provider, Anthropic's share behind a provider that tells nothing of it, and requests
/// that were cut when they were recorded.
const HIDDEN: [&str; 6] = [
    "anthropic/stream_web_search_citations",
    "cohere/stream_tool_call",
    "gemini/stream_cached_content",
    "openrouter/stream_mid_error",
    "openrouter/stream_reasoning_details_tool",
    "openrouter/stream_tool_calls",
];

/// Against what providers charged for recorded requests. Short as these are, what a provider adds weighs more than the
/// texts: beside the tenth of the reserve, 200 tokens are allowed.
#[test]
fn estimates_are_near_what_providers_reported() {
    if !are_here() {
        return;
    }
    let mut compared = 0;
    for recording in recordings() {
        let body = String::from_utf8_lossy(&recording.body).into_owned();
        let (200, Some(reported)) = (recording.status, reported(&body)) else { continue };
        if recording.request.is_null() || HIDDEN.contains(&&*recording.name) {
            continue;
        }
        let mut estimated = 0;
        texts(&recording.request, &mut estimated);
        if recording.request["tools"].as_array().is_some_and(|tools| !tools.is_empty()) {
            estimated += crate::tokens::tool_overhead(recording.provider());
        }
        let allowed = reported / 10 + 200;
        let name = &recording.name;
        assert!(estimated.abs_diff(reported) <= allowed, "{name}: {estimated}, and charged were {reported}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}
