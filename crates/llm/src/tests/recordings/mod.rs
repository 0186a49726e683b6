//! Replays recorded exchanges with real providers, if they exist in `shared/fixtures/llm` next to the project.
//! Otherwise each of these tests prints that it was skipped; the hand-written exchanges in `exchanges/` are always
//! replayed.

mod requests;
mod round_trips;
mod streams;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::error;
use crate::tokens::estimate;

/// One recorded exchange.
struct Recording {
    /// `provider/name`
    name: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    request: Value,
}

impl Recording {
    fn provider(&self) -> &str {
        self.name.split_once('/').unwrap().0
    }

    fn streams(&self) -> bool {
        let sse = self.body.windows(6).any(|window| window == b"data: ");
        self.status == 200 && (sse || self.name.contains("ndjson"))
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/llm")
}

/// Whether recordings exist; prints a line if not.
fn are_here() -> bool {
    let folder = folder();
    let here = folder.is_dir();
    if !here {
        eprintln!("LEFT OUT: no recorded exchanges in {}", folder.display());
    }
    here
}

/// All recordings, ordered by name.
fn recordings() -> Vec<Recording> {
    let folder = folder();
    let mut found = Vec::new();
    for provider in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let provider = provider.unwrap();
        if !provider.file_type().unwrap().is_dir() {
            continue;
        }
        for file in fs::read_dir(provider.path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
                let name = format!("{}/{stem}", provider.file_name().to_string_lossy());
                found.push(recording(name, &path));
            }
        }
    }
    assert!(found.len() >= 57, "only {} recordings in {}", found.len(), folder.display());
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn recording(name: String, path: &std::path::Path) -> Recording {
    let exchange: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let response = &exchange["response"];
    let body = match (&response["body"], response["body_file"].as_str()) {
        (_, Some(file)) => fs::read(path.with_file_name(file)).unwrap(),
        (Value::String(text), None) => text.clone().into_bytes(),
        (value, None) => value.to_string().into_bytes(),
    };
    let headers = response["headers"].as_array().into_iter().flatten();
    Recording {
        name,
        status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
        headers: headers
            .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned()))
            .collect(),
        body,
        request: exchange["request"]["body"].clone(),
    }
}

/// A recorded refusal.
pub(crate) struct Refusal {
    pub(crate) provider: String,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Each recorded refusal; none if no recordings exist.
pub(crate) fn refusals() -> Vec<Refusal> {
    if !are_here() {
        return Vec::new();
    }
    let of = |recording: Recording| {
        let provider =
            recording.provider().replace("azure_openai", "azure").replace("azure_foundry", "foundry");
        let (status, body) = (recording.status, recording.body);
        (status >= 400).then_some(Refusal { provider, status, body })
    };
    recordings().into_iter().filter_map(of).collect()
}

/// The results of an independent prototype, by name of the recording.
fn expected() -> Vec<(String, Value)> {
    let text = fs::read_to_string(folder().join("EXPECTED.jsonl")).unwrap();
    text.lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            (row["name"].as_str().unwrap().to_owned(), row["expect"].clone())
        })
        .collect()
}

/// The error code for the prototype's name of it.
fn code_of(name: &str) -> houston_domain::model::ModelErrorCode {
    use houston_domain::model::ModelErrorCode as Code;
    match name {
        "Auth" => Code::AuthenticationError,
        "ContextLength" => Code::ContextLengthExceeded,
        "ModelNotFound" => Code::ModelNotFound,
        "RateLimited" | "Overloaded" => Code::RateLimited,
        // An invalid request of another kind is none of the ten codes.
        "InvalidRequest" => Code::Unknown,
        // The provider rejected what its own model wrote.
        "Provider" => Code::InvalidResponse,
        other => panic!("unknown code {other}"),
    }
}

#[test]
fn recorded_errors_are_classified() {
    if !are_here() {
        return;
    }
    let expected = expected();
    let mut ran = 0;
    for recording in recordings().iter().filter(|recording| recording.status >= 400) {
        let (_, row) = expected.iter().find(|(name, _)| *name == recording.name).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in &recording.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<reqwest::header::HeaderName>(), value.parse()) {
                headers.append(name, value);
            }
        }
        let error = error::refused(recording.status, &headers, &recording.body);
        let code = match recording.name.as_str() {
            // The provider rejected what its own model wrote, as the same error within a stream; the prototype had no
            // code for it.
            "groq/error_400_tool_use_failed" => code_of("Provider"),
            _ => code_of(row["code"].as_str().unwrap()),
        };
        assert_eq!(error.code, code, "{}: {error}", recording.name);
        let wait = row["retry_after_ms"].as_u64().map(Duration::from_millis);
        assert_eq!(error.retry_after, wait, "{}", recording.name);
        assert_eq!(error.status, row["status"].as_u64().map(|status| u16::try_from(status).unwrap()));
        assert!(!error.message.is_empty() && !error.message.contains('<'), "{}: {error}", recording.name);
        ran += 1;
    }
    println!("{ran} recorded errors classified");
    assert!(ran >= 22, "only {ran}");
}

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
