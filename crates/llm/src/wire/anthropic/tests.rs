use std::collections::VecDeque;

use houston_domain::history::{Block, Entry, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use serde_json::{Value, json};

use super::super::{AnswerEnd, Decoder as _};
use super::encode;
use super::stream::AnthropicDecoder;
use crate::model::{AnswerSchema, Deferred, Description, Event, Request, SystemPart};
use crate::profile::Profile;
use crate::protocol::Wire;

fn encode_for(model: &Description, request: &Request<'_>) -> Vec<u8> {
    encode(model, &Profile::on(Wire::Anthropic, &model.provider, &model.model), request)
}

fn described(model: &str) -> Description {
    Description { provider: "anthropic".into(), model: model.into(), simulated: false, supports_tools: true }
}

fn request_body(request: &Request<'_>) -> Value {
    serde_json::from_slice(&encode_for(&described("claude"), request)).unwrap()
}

fn sent(system: &[SystemPart], entries: &[Entry]) -> Value {
    request_body(&Request { system, entries, tools: &[], max_output_tokens: 7, ..Request::default() })
}

fn decode(data: &[Value]) -> Result<(ModelAnswer, Vec<Event>), ModelError> {
    let (mut decoder, mut events) =
        (AnthropicDecoder::new("anthropic", AnswerEnd::DoneMark), VecDeque::new());
    for event in data {
        decoder.event("", &event.to_string(), &mut events)?;
    }
    decoder.end(&mut events)?;
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("no end: {events:?}") };
    Ok((*turn, events.into()))
}

#[test]
fn cache_marks_follow_first_and_last_stable_part() {
    let part = |text: &str, cached| SystemPart { text: text.into(), cached };
    let system = [part("a", true), part("m", true), part("b", true), part(" ", false), part("now", false)];
    let body = sent(&system, &[Entry::user(vec![Block::text("hi")])]);
    assert_eq!(
        body["system"],
        json!([
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "m"},
            {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "now"},
        ])
    );
    assert_eq!(
        body["messages"][0]["content"],
        json!([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}])
    );
    assert_eq!(body["max_tokens"], 7);
    assert!(body.get("tools").is_none());
}

#[test]
fn histories_are_made_valid_for_anthropic() {
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
                code: None,
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
fn arguments_are_decoded_whole_in_pieces_or_missing() {
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
fn error_event_and_missing_end_are_errors() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(decode(&[overloaded]).unwrap_err().code, ModelErrorCode::RateLimited);
    let stopped = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
    assert_eq!(decode(&[stopped]).unwrap_err().code, ModelErrorCode::NetworkError);
}

#[test]
fn cache_marks_move_with_the_conversation() {
    let call = |id: &str| Block::ToolUse { id: id.into(), name: "f".into(), input: json!({}), raw: None };
    let result = |id: &str| Block::ToolResult {
        tool_use_id: id.into(),
        content: "ok".into(),
        is_error: false,
        code: None,
    };
    let mut entries = vec![Entry::user(vec![Block::text("1")])];
    let part = |text: &str, cached| SystemPart { text: text.into(), cached };
    let marked = |entries: &[Entry], system: &[SystemPart], cache_key| {
        let request = Request { system, entries, cache_key, ..Request::default() };
        let body = request_body(&request);
        let messages = body["messages"].as_array().unwrap();
        let marked: Vec<usize> = (0..messages.len())
            .filter(|at| {
                let blocks = messages[*at]["content"].as_array().unwrap();
                let marks: Vec<bool> =
                    blocks.iter().map(|block| block.get("cache_control").is_some()).collect();
                assert!(marks.iter().rev().skip(1).all(|mark| !mark), "{blocks:?}");
                marks.last() == Some(&true)
            })
            .collect();
        (marked, body.to_string().matches("cache_control").count())
    };
    for round in 0..5 {
        let ids = [format!("a{round}"), format!("b{round}")];
        entries.push(Entry::assistant(vec![call(&ids[0]), call(&ids[1])]));
        entries.push(Entry::user(vec![result(&ids[0]), result(&ids[1])]));
    }
    let stable = [part("a", true), part("now", false)];
    assert_eq!(marked(&entries, &stable, None), (vec![8, 10], 3));
    assert_eq!(marked(&entries[..3], &stable, None), (vec![0, 2], 3));
    assert_eq!(marked(&entries, &[], Some("goal_1")), (vec![8, 10], 2));
    let stable = [part("a", true), part("b", true), part("c", true)];
    assert_eq!(
        marked(&entries, &stable, Some("goal_1")),
        (vec![8, 10], 4),
        "Anthropic allows at most four marks"
    );
    // A single request would pay for a cache that is never read.
    assert_eq!(marked(&entries, &[part("a", false)], None), (vec![], 0));
}

#[test]
fn schema_is_enforced_or_described_in_the_prompt() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    let form = Some(AnswerSchema { name: "verdict", schema: &schema, strict: true });
    let request = Request { answer_schema: form, ..Request::default() };
    let body =
        |model: &str| -> Value { serde_json::from_slice(&encode_for(&described(model), &request)).unwrap() };
    for model in ["claude-sonnet-5-5", "claude-opus-4-1-20250805", "anthropic/claude-haiku-4-5"] {
        let body = body(model);
        let sent = &body["output_config"]["format"]["schema"];
        assert_eq!(sent["additionalProperties"], false, "{model}");
        assert!(body.get("system").is_none());
    }
    for model in ["claude-3-5-haiku-latest", "claude-sonnet-4-20250514", "deepseek-v4-flash"] {
        let body = body(model);
        assert!(body.get("output_config").is_none(), "{model}");
        assert!(body["system"][0]["text"].as_str().unwrap().ends_with(&schema.to_string()));
    }
}

#[test]
fn server_tool_blocks_are_stored_unchanged() {
    let start = |index: u64, block: &str| {
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
    };
    let delta = |index: u64, delta: &str| {
        format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
    };
    let result = r#"{"type":"mcp_tool_result","tool_use_id":"m","is_error":false,"content":[{"n":1.10}]}"#;
    let data = [
        start(0, r#"{"type":"mcp_tool_use","id":"m","name":"x","server_name":"s","input":{}}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":""}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":"{\"b\": 1.10, "}"#),
        delta(0, r#"{"type":"input_json_delta","partial_json":"\"a\":2}"}"#),
        start(1, result),
        start(2, r#"{"type":"compaction","content":null}"#),
        delta(2, r#"{"type":"compaction_delta","content":"folded \u00e4"}"#),
        r#"{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}}}"#.to_owned(),
        r#"{"type":"message_stop"}"#.to_owned(),
    ];
    let (mut decoder, mut events) =
        (AnthropicDecoder::new("anthropic", AnswerEnd::DoneMark), VecDeque::new());
    for data in &data {
        decoder.event("", data, &mut events).unwrap();
    }
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("{events:?}") };
    let blocks: Vec<&str> = turn
        .content
        .iter()
        .map(|block| if let Block::Opaque { raw } = block { &*raw.json } else { panic!("{block:?}") })
        .collect();
    assert_eq!(
        blocks,
        [
            r#"{"type":"mcp_tool_use","id":"m","name":"x","server_name":"s","input":{"b": 1.10, "a":2}}"#,
            result,
            r#"{"type":"compaction","content":"folded \u00e4"}"#,
        ]
    );
    assert_eq!((turn.usage.cache_write_tokens, turn.stop), (7, StopReason::Paused));
}

#[test]
fn second_message_start_means_first_was_cut_off() {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}});
    let text =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}});
    let stop = json!({"type": "message_stop"});
    let twice = [start.clone(), start.clone(), text.clone(), stop.clone()];
    assert_eq!(decode(&twice).unwrap().0.content, [Block::text("a")]);
    let spliced = [start.clone(), text.clone(), start, text, stop];
    assert_eq!(decode(&spliced).unwrap_err().code, ModelErrorCode::NetworkError);
}

#[test]
fn text_for_an_earlier_block_is_rejected() {
    let start = |index: u64| json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}});
    let text = |index: u64| json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": "a"}});
    let error = decode(&[start(0), text(0), start(1), text(1), text(0)]).unwrap_err();
    assert_eq!(error.code, ModelErrorCode::InvalidResponse, "emitted in another order than stored");
}

#[test]
fn tools_are_deferred_only_for_models_that_search() {
    let tool = |name: &str| ToolDefinition {
        name: name.into(),
        description: "d".into(),
        input_schema: json!({"type": "object", "properties": {}}).into(),
        effect: EffectClass::Read,
        timeout: ToolDefinition::default_timeout(),
    };
    let (tools, deferred) = ([tool("reply"), tool("find")], [tool("a"), tool("b")]);
    let deferred = Some(Deferred { tools: &deferred, finding: 1 });
    let sent = |model: &str, deferred| -> Value {
        let request = Request { tools: &tools, deferred, ..Request::default() };
        let body: Value = serde_json::from_slice(&encode_for(&described(model), &request)).unwrap();
        body["tools"].clone()
    };
    let plain = |name: &str| json!({"name": name, "description": "d", "input_schema": {"type": "object", "properties": {}}});
    let late = |name: &str| json!({"name": name, "description": "d", "input_schema": {"type": "object", "properties": {}}, "defer_loading": true});
    assert_eq!(
        sent("claude-sonnet-4-5", deferred),
        json!([
            plain("reply"),
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
            late("a"),
            late("b"),
        ])
    );
    for (model, deferred) in [("claude-sonnet-4-5", None), ("claude-of-my-own", deferred)] {
        assert_eq!(sent(model, deferred), json!([plain("reply"), plain("find")]), "{model}");
    }
}

#[test]
fn search_for_tools_is_kept_and_sent_back() {
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25",
        "input": {"query": "weather"}});
    let found = json!({"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1",
        "content": {"type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "get_weather"}]}});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Ulm"}});
    let start = |index: u64, block: &Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let (turn, _) = decode(&[
        json!({"type": "message_start", "message": {}}),
        start(0, &search),
        start(1, &found),
        start(2, &call),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ])
    .unwrap();
    let result = Block::ToolResult {
        tool_use_id: "toolu_1".into(),
        content: "sunny".into(),
        is_error: false,
        code: None,
    };
    let body = sent(
        &[],
        &[
            Entry::user(vec![Block::text("weather?")]),
            Entry::assistant(turn.content),
            Entry::user(vec![result]),
        ],
    );
    assert_eq!(body["messages"][1]["content"], json!([search, found, call]));
}

#[test]
fn cache_policy_decides_how_long_marks_last() {
    use houston_domain::model_policy::CachePolicy;
    let system = [SystemPart { text: "You are brief.".into(), cached: true }];
    let entries = [Entry::user(vec![Block::text("hi")])];
    let marks = |cache| {
        let body = request_body(&Request {
            system: &system,
            entries: &entries,
            max_output_tokens: 9,
            cache,
            ..Request::default()
        });
        let marks =
            [&body["system"][0]["cache_control"], &body["messages"][0]["content"][0]["cache_control"]];
        marks.map(Value::clone)
    };
    let usual = json!({"type": "ephemeral"});
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(marks(CachePolicy::Auto), [usual.clone(), usual.clone()]);
    assert_eq!(marks(CachePolicy::Short), [usual.clone(), usual]);
    assert_eq!(marks(CachePolicy::Long), [hour.clone(), hour]);
    assert_eq!(marks(CachePolicy::Off), [Value::Null, Value::Null]);
}
