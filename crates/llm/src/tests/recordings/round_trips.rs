use houston_domain::history::{Block, Entry};
use serde_json::Value;
use serde_json::value::RawValue;

use super::are_here;
use super::requests::{answer, recording, result};
use crate::model::{Description, Request};
use crate::profile::Profile;
use crate::protocol::Wire;

/// What must be sent back of a recorded answer.
struct Signed {
    recording: &'static str,
    wire: Wire,
    /// The provider whose profile it is sent back with.
    profile: &'static str,
    /// Path to it in an event of the stream; `*` is every element.
    path: &'static str,
    /// Text by which events that contain it are recognised.
    marks: &'static [&'static str],
    /// Whether it is a text that arrives in pieces.
    in_pieces: bool,
}

const ANTHROPIC: Signed = Signed {
    recording: "",
    wire: Wire::Anthropic,
    profile: "x",
    path: "content_block",
    marks: &[],
    in_pieces: false,
};
const GEMINI: Signed = Signed {
    wire: Wire::Gemini,
    path: "candidates/*/content/parts/*",
    marks: &["thoughtSignature"],
    ..ANTHROPIC
};

const TABLE: &[Signed] = &[
    Signed {
        recording: "anthropic/stream_thinking_then_tool",
        path: "delta/thinking",
        in_pieces: true,
        ..ANTHROPIC
    },
    Signed {
        recording: "anthropic/stream_thinking_then_tool",
        path: "delta/signature",
        in_pieces: true,
        ..ANTHROPIC
    },
    Signed { recording: "anthropic/stream_redacted_thinking", marks: &["redacted_thinking"], ..ANTHROPIC },
    Signed {
        recording: "anthropic/stream_web_search_citations",
        marks: &["web_search_tool_result"],
        ..ANTHROPIC
    },
    Signed { recording: "anthropic/stream_web_search_citations", path: "delta/citation", ..ANTHROPIC },
    Signed {
        recording: "openai/responses_stream_tool_call",
        wire: Wire::OpenAiResponses,
        path: "item",
        marks: &["response.output_item.done", "encrypted_content"],
        ..ANTHROPIC
    },
    Signed { recording: "gemini/stream_tool_call_signature", ..GEMINI },
    Signed { recording: "gemini/stream_thinking", ..GEMINI },
    Signed {
        recording: "openrouter/stream_reasoning_details_tool",
        wire: Wire::OpenAiChat,
        path: "choices/*/delta/reasoning_details/*/signature",
        marks: &["\"signature\":\""],
        ..ANTHROPIC
    },
    Signed {
        recording: "openrouter/stream_reasoning_details_tool",
        wire: Wire::OpenAiChat,
        path: "choices/*/delta/reasoning_details/*/text",
        in_pieces: true,
        ..ANTHROPIC
    },
    Signed {
        // No recording of DeepSeek contains reasoning; this one uses the same field.
        recording: "zhipu/stream_thinking",
        wire: Wire::OpenAiChat,
        profile: "deepseek",
        path: "choices/*/delta/reasoning_content",
        in_pieces: true,
        ..ANTHROPIC
    },
];

impl Signed {
    fn provider(&self) -> &'static str {
        self.recording.split_once('/').unwrap().0
    }

    /// The recorded values, byte for byte.
    fn recorded(&self) -> Vec<String> {
        let stream = String::from_utf8(recording(self.recording).body).unwrap();
        let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = events.filter(|event| self.marks.iter().all(|mark| event.contains(mark)));
        let path: Vec<&str> = self.path.split('/').collect();
        let mut found = Vec::new();
        for event in events {
            if let Ok(event) = serde_json::from_str(event) {
                collect(event, &path, &mut found);
            }
        }
        found.retain(|value| value != "null");
        if self.in_pieces {
            let pieces = found.iter().map(|piece| serde_json::from_str::<String>(piece).unwrap());
            found = vec![Value::from(pieces.collect::<String>()).to_string()];
        }
        found
    }

    /// The request body that follows the recorded answer, sent to `provider`.
    fn next_request(&self, provider: &str) -> String {
        let answer = answer(self.wire, self.provider(), self.recording);
        let mut entries = vec![Entry::user(vec![Block::text("1")]), answer.clone()];
        match answer.tool_uses().next() {
            Some(_) => entries.push(result(&answer, "done")),
            None => entries.push(Entry::user(vec![Block::text("2")])),
        }
        let model = Description {
            provider: provider.to_owned(),
            model: "m".to_owned(),
            simulated: false,
            supports_tools: true,
        };
        let request = Request { entries: &entries, ..Request::default() };
        let profile = Profile::on(self.wire, self.profile, "m");
        String::from_utf8(self.wire.encode(&model, &profile, &request)).unwrap()
    }
}

fn collect(value: &RawValue, path: &[&str], found: &mut Vec<String>) {
    let Some((step, rest)) = path.split_first() else { return found.push(value.get().to_owned()) };
    if *step == "*" {
        let elements: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap_or_default();
        elements.into_iter().for_each(|element| collect(element, rest, found));
    } else if let Ok(fields) =
        serde_json::from_str::<std::collections::HashMap<String, &RawValue>>(value.get())
        && let Some(field) = fields.get(*step)
    {
        collect(field, rest, found);
    }
}

#[test]
fn signed_data_is_sent_back_only_to_its_provider() {
    if !are_here() {
        return;
    }
    for signed in TABLE {
        let name = format!("{} {}", signed.recording, signed.path);
        let recorded = signed.recorded();
        assert!(recorded.iter().any(|value| value.len() > 20), "{name}: {recorded:?}");
        let request = signed.next_request(signed.provider());
        let others = signed.next_request("another");
        for value in &recorded {
            assert!(request.contains(value), "{name}: {value} is not in {request}");
            assert!(!others.contains(value), "{name}: {value} went to another provider");
        }
        println!(
            "{name}: {} values, {} bytes",
            recorded.len(),
            recorded.iter().map(String::len).sum::<usize>()
        );
    }
}
