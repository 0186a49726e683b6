use std::collections::VecDeque;

use houston_domain::history::{Block, Entry, RawBlock};
use houston_domain::model::{ModelError, ModelErrorCode, ModelTurn, StopReason};
use serde_json::{Value, json};

use super::super::Decoder as _;
use super::request::encode;
use super::stream::AnthropicDecoder;
use crate::model::{Description, Event, Request, SystemPart};

fn sent(system: &[SystemPart], entries: &[Entry]) -> Value {
    let model = Description {
        provider: "anthropic".into(),
        model: "claude".into(),
        simulated: false,
        supports_tools: true,
    };
    let request = Request { system, entries, tools: &[], max_output_tokens: 7, ..Request::default() };
    serde_json::from_slice(&encode(&model, &request)).unwrap()
}

fn decode(data: &[Value]) -> Result<(ModelTurn, Vec<Event>), ModelError> {
    let (mut decoder, mut events) = (AnthropicDecoder::new("anthropic"), VecDeque::new());
    for event in data {
        decoder.event("", &event.to_string(), &mut events)?;
    }
    decoder.end(&mut events)?;
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("no end: {events:?}") };
    Ok((*turn, events.into()))
}

#[test]
fn the_cache_ends_after_the_last_stable_part() {
    let part = |text: &str, cached| SystemPart { text: text.into(), cached };
    let system = [part("a", true), part("b", true), part(" ", false), part("now", false)];
    let body = sent(&system, &[Entry::user(vec![Block::text("hi")])]);
    assert_eq!(
        body["system"],
        json!([
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "now"},
        ])
    );
    assert_eq!(body["max_tokens"], 7);
    assert!(body.get("tools").is_none());
}

#[test]
fn what_anthropic_would_refuse_for_ever_is_mended() {
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let thinking = || Block::Thinking {
        text: "hm".into(),
        raw: Some(RawBlock::new("anthropic", "anthropic", signed.to_string())),
    };
    let foreign = Block::Thinking {
        text: "hm".into(),
        raw: Some(RawBlock::new("openai_chat", "groq", r#"{"field":"reasoning"}"#)),
    };
    let body = sent(
        &[],
        &[
            Entry::user(vec![Block::text("1")]),
            Entry::assistant(vec![thinking()]),
            Entry::user(vec![Block::text(" ")]),
            Entry::assistant(vec![
                foreign,
                thinking(),
                Block::text("\n"),
                Block::ToolUse {
                    id: "functions.get:0".into(),
                    name: "no such tool!".into(),
                    input: json!({}),
                    raw: None,
                },
                thinking(),
            ]),
            Entry::user(vec![Block::ToolResult {
                tool_use_id: "functions.get:0".into(),
                content: "unknown tool".into(),
                is_error: true,
            }]),
            Entry::user(vec![Block::text("2")]),
        ],
    );
    let id = body["messages"][1]["content"][1]["id"].as_str().unwrap();
    assert!(!id.contains('.'));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "(empty message)"}]},
            {"role": "assistant", "content": [
                signed,
                {"type": "tool_use", "id": id, "name": "no_such_tool_", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": "unknown tool", "is_error": true},
                {"type": "text", "text": "2"},
            ]},
        ])
    );
}

#[test]
fn arguments_are_read_whole_in_pieces_or_not_at_all() {
    let start = |index: u64, input: Value| {
        let block = json!({"type": "tool_use", "id": format!("t{index}"), "name": "x", "input": input});
        json!({"type": "content_block_start", "index": index, "content_block": block})
    };
    let piece = |index: u64, json: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": json}});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let (turn, events) = decode(&[
        json!({"type": "some_future_event", "anything": [1]}),
        start(0, json!({})),
        piece(0, "{\"a\": \"\\u00"),
        piece(0, "e4\"}"),
        stop(0),
        start(1, json!({"whole": true})),
        stop(1),
        start(2, json!({})),
        piece(2, "[1, 2]"),
        stop(2),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ])
    .unwrap();
    let inputs: Vec<Value> = turn
        .content
        .iter()
        .map(
            |block| {
                if let Block::ToolUse { input, .. } = block { input.clone() } else { panic!("{block:?}") }
            },
        )
        .collect();
    assert_eq!(inputs, [json!({"a": "ä"}), json!({"whole": true}), json!({})]);
    assert_eq!(turn.malformed, [("t2".to_owned(), "[1, 2]".to_owned())]);
    assert_eq!(turn.stop, StopReason::ToolUse);
    assert!(events.contains(&Event::ToolArguments { index: 1, json: "{\"whole\":true}".into() }));
}

#[test]
fn an_error_event_and_a_missing_end_are_errors() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(decode(&[overloaded]).unwrap_err().code, ModelErrorCode::RateLimited);
    let stopped = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
    assert_eq!(decode(&[stopped]).unwrap_err().code, ModelErrorCode::NetworkError);
}
