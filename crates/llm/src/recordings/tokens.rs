use serde_json::Value;

use super::{are_here, recordings};
use crate::tokens::estimate;

/// All strings of a value without field names; schemas as JSON, as models read them.
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
                    // Fields that are not part of the conversation or not billed.
                    "model" | "type" | "role" | "signature" | "id" | "tool_use_id" | "tool_call_id"
                    | "thoughtSignature" | "include" | "stream_options" | "tool_choice" => {}
                    _ => texts(value, found),
                }
            }
        }
        _ => {}
    }
}

/// The largest input token count in a recorded answer, cached tokens included.
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

/// Recordings whose billed input is not all in the request: results of the provider's own search, a cache written
/// earlier, tools described by the provider, Anthropic's share behind a provider that does not report it, and
/// requests that were truncated when recorded.
const HIDDEN: [&str; 6] = [
    "anthropic/stream_web_search_citations",
    "cohere/stream_tool_call",
    "gemini/stream_cached_content",
    "openrouter/stream_mid_error",
    "openrouter/stream_reasoning_details_tool",
    "openrouter/stream_tool_calls",
];

/// Compares estimates with what providers billed for recorded requests. The requests are short, so the provider's
/// overhead weighs more than the texts: besides the reserve of 10 %, 200 tokens are allowed.
#[test]
fn token_estimates_are_close_to_billed_counts() {
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
