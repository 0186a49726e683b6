use std::collections::VecDeque;

use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode as Code, StopReason};
use serde_json::{Value, json};

use super::super::{AnswerEnd, Decoder as _};
use super::encode;
use super::stream::OllamaDecoder;
use crate::model::{AnswerSchema, Description, Event, Request};
use crate::profile::Profile;
use crate::protocol::Wire;

fn encode_for(model: &Description, request: &Request<'_>) -> Vec<u8> {
    encode(model, &Profile::on(Wire::Ollama, &model.provider, &model.model), request)
}

fn decode(lines: &[Value]) -> Result<(ModelAnswer, Vec<Event>), ModelError> {
    let (mut decoder, mut events) = (OllamaDecoder::new("ollama", AnswerEnd::DoneMark), VecDeque::new());
    for line in lines {
        decoder.event("", &line.to_string(), &mut events)?;
    }
    decoder.end(&mut events)?;
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("no end: {events:?}") };
    Ok((*turn, events.into()))
}

fn line(message: Value) -> Value {
    json!({"model": "m", "created_at": "2026-08-05T08:11:02Z", "message": message, "done": false})
}

fn done(reason: &str) -> Value {
    json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
           "total_duration": 1, "prompt_eval_count": 262, "eval_count": 473})
}

fn calls() -> Vec<Value> {
    vec![
        line(json!({"role": "assistant", "content": "", "thinking": "hm"})),
        line(json!({"role": "assistant", "content": "so"})),
        line(json!({"content": "", "tool_calls": [
            {"id": "call_1", "function": {"index": 0, "name": "f", "arguments": {"n": 1.10, "a": "ä"}}},
        ]})),
        line(json!({"content": "", "tool_calls": [
            {"function": {"name": "g", "arguments": {}}},
            {"function": {"name": "h", "arguments": "{\"n\": 2}"}},
            {"function": {"name": "i", "arguments": [1]}},
        ]})),
        done("stop"),
    ]
}

fn sent(request: &Request<'_>) -> Value {
    let model = Description {
        provider: "ollama".into(),
        model: "qwen3:4b".into(),
        simulated: false,
        supports_tools: true,
    };
    serde_json::from_slice(&encode_for(&model, request)).unwrap()
}

#[test]
fn tool_calls_decode_with_and_without_ids() {
    let (turn, events) = decode(&calls()).unwrap();
    assert_eq!(turn.stop, StopReason::ToolUse, "Ollama reports `stop` together with tool calls");
    assert_eq!((turn.usage.input_tokens, turn.usage.output_tokens), (262, 473));
    let calls: Vec<_> = turn
        .content
        .iter()
        .filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } => Some((id.as_str(), name.as_str(), input.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(
        calls,
        [
            ("call_1", "f", json!({"n": 1.10, "a": "ä"})),
            ("", "g", json!({})),
            ("", "h", json!({"n": 2})),
            ("", "i", json!({})),
        ]
    );
    assert_eq!(turn.malformed, [(String::new(), "[1]".to_owned())]);
    assert_eq!(events[..2], [Event::Thinking("hm".into()), Event::Text("so".into())]);
    assert_eq!(decode(&[done("length")]).unwrap().0.stop, StopReason::MaxTokens);
}

#[test]
fn stream_errors_and_missing_ends_are_errors() {
    let text = line(json!({"content": "hi"}));
    let code = |lines: &[Value]| decode(lines).unwrap_err().code;
    assert_eq!(code(std::slice::from_ref(&text)), Code::NetworkError);
    let broken = "an error was encountered while running the model: CUDA error";
    assert_eq!(code(&[text.clone(), json!({"error": broken})]), Code::NetworkError);
    assert_eq!(code(&[json!({"error": "model 'x' not found"})]), Code::ModelNotFound);
    assert_eq!(
        code(&[json!({"error": "prompt too long; exceeded max context length by 4 tokens"})]),
        Code::ContextLengthExceeded
    );
    assert_eq!(code(&[text, json!({"done": false})]), Code::InvalidResponse);
}

#[test]
fn history_is_encoded_with_arguments_thinking_and_names() {
    let (turn, _) = decode(&calls()).unwrap();
    let result =
        Block::ToolResult { tool_use_id: "call_1".into(), content: "ok".into(), is_error: false, code: None };
    let foreign = Block::Thinking {
        text: "other".into(),
        raw: Some(houston_domain::history::RawBlock::new("anthropic", "anthropic", "{}")),
    };
    let mut content = turn.content[..3].to_vec();
    content.insert(0, foreign);
    let schema = json!({"type": "object"});
    let entries =
        [Entry::user(vec![Block::text("hi")]), Entry::assistant(content), Entry::user(vec![result])];
    let body = sent(&Request {
        entries: &entries,
        max_output_tokens: 7,
        answer_schema: Some(AnswerSchema { name: "form", schema: &schema, strict: true }),
        ..Request::default()
    });
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "so", "thinking": "hm", "tool_calls": [
                {"id": "call_1", "function": {"name": "f", "arguments": {"n": 1.10, "a": "ä"}}},
            ]},
            {"role": "tool", "content": "ok", "tool_name": "f", "tool_call_id": "call_1"},
        ])
    );
    assert_eq!(body["format"], schema);
    assert_eq!(body["options"], json!({"num_predict": 7, "num_ctx": 8192}));
    assert!(body.get("think").is_none(), "rejected by models without reasoning");
}

#[test]
fn context_window_fits_and_is_a_power_of_two() {
    let window = |length: usize, answer: u32| {
        let entries = [Entry::user(vec![Block::text("x".repeat(length))])];
        let body = sent(&Request { entries: &entries, max_output_tokens: answer, ..Request::default() });
        body["options"]["num_ctx"].as_u64().unwrap()
    };
    assert_eq!(window(100, 1000), 8192);
    assert_eq!(window(30_000, 1000), 16_384);
    assert_eq!(window(30_000, 4096), 16_384);
    assert_eq!(window(150_000, 4096), 65_536);
    assert_eq!(window(9_000_000, 4096), 262_144);
}
