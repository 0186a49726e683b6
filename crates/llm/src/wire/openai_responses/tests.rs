use std::collections::VecDeque;

use houston_domain::history::{Block, Entry, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason, Usage};
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use serde_json::{Value, json};

use super::super::Decoder as _;
use super::encode;
use super::stream::ResponsesDecoder;
use crate::model::{AnswerSchema, Deferred, Description, Event, Request, SystemPart};
use crate::profile::Profile;
use crate::protocol::Wire;

fn encode_for(model: &Description, request: &Request<'_>) -> Vec<u8> {
    encode(model, &Profile::on(Wire::OpenAiResponses, &model.provider, &model.model), request)
}

fn decode(data: &[Value]) -> Result<(ModelAnswer, Vec<Event>), ModelError> {
    let (mut decoder, mut events) = (ResponsesDecoder::new("openai"), VecDeque::new());
    for event in data {
        decoder.event("", &event.to_string(), &mut events)?;
    }
    decoder.event("", "[DONE]", &mut events)?;
    decoder.end(&mut events)?;
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("no end: {events:?}") };
    Ok((*turn, events.into()))
}

/// An event about the item with this index.
fn about(number: u64, kind: &str, rest: Value) -> Value {
    let mut event = json!({"type": format!("response.{kind}"), "output_index": number, "item_id": "x"});
    event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    event
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "error": null, "output": []}})
}

fn sent(model: &str, request: &Request<'_>) -> Value {
    let model = Description {
        provider: "openai".into(),
        model: model.into(),
        simulated: false,
        supports_tools: true,
    };
    serde_json::from_slice(&encode_for(&model, request)).unwrap()
}

#[test]
fn items_decode_to_blocks() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "a b"}, {"type": "summary_text", "text": "c"}]});
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": {"type": "search", "query": "q"}});
    let text = json!({"type": "output_text", "text": "see x", "annotations": [{"type": "url_citation"}]});
    let cited = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [text]});
    let phased = json!({"type": "message", "phase": "commentary",
        "content": [{"type": "output_text", "text": "now", "annotations": []}]});
    let call = json!({"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{\"n\": 1}"});
    let opened = json!({"type": "function_call", "call_id": "call_1", "name": "f", "arguments": ""});
    let (turn, events) = decode(&[
        json!({"type": "response.created", "response": {"status": "in_progress"}}),
        about(0, "output_item.added", json!({"item": {"type": "reasoning", "encrypted_content": "early"}})),
        about(0, "reasoning_summary_part.added", json!({"summary_index": 0})),
        about(0, "reasoning_summary_text.delta", json!({"summary_index": 0, "delta": "a "})),
        about(0, "reasoning_summary_text.delta", json!({"summary_index": 0, "delta": "b"})),
        about(0, "reasoning_summary_text.delta", json!({"summary_index": 1, "delta": "c"})),
        about(0, "output_item.done", json!({"item": reasoning})),
        about(1, "output_item.added", json!({"item": {"type": "web_search_call", "id": "ws_1"}})),
        about(1, "web_search_call.searching", json!({})),
        about(1, "output_item.done", json!({"item": search})),
        about(2, "output_item.added", json!({"item": {"type": "message", "content": []}})),
        about(2, "content_part.added", json!({"content_index": 0, "part": {"type": "output_text"}})),
        about(2, "output_text.delta", json!({"content_index": 0, "delta": "see "})),
        about(2, "output_text.delta", json!({"content_index": 0, "delta": "x", "obfuscation": "aa"})),
        about(2, "output_text.done", json!({"content_index": 0, "text": "see x"})),
        about(2, "output_item.done", json!({"item": cited})),
        about(3, "output_item.done", json!({"item": phased})),
        about(4, "output_item.added", json!({"item": opened})),
        about(4, "function_call_arguments.delta", json!({"delta": "{\"n\""})),
        about(4, "function_call_arguments.delta", json!({"delta": ": 1}"})),
        about(4, "function_call_arguments.done", json!({"arguments": "{\"n\": 1}"})),
        about(4, "output_item.done", json!({"item": call})),
        about(5, "shell_call_output_content.delta", json!({"delta": {"stdout": "not a text"}})),
        completed(),
    ])
    .unwrap();
    let raw_block = |item: &Value| RawBlock::new("openai_responses", "openai", item.to_string());
    assert_eq!(
        turn.content,
        [
            Block::Thinking { text: "a b\n\nc".into(), raw: Some(raw_block(&reasoning)) },
            Block::Opaque { raw: raw_block(&search) },
            Block::Text { text: "see x".into(), raw: Some(raw_block(&cited)) },
            Block::Text { text: "now".into(), raw: Some(raw_block(&phased)) },
            Block::ToolUse { id: "call_1".into(), name: "f".into(), input: json!({"n": 1}), raw: None },
        ]
    );
    assert_eq!(turn.stop, StopReason::ToolUse);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::ToolArguments { .. })).count(), 2);
    let thought = events.iter().filter_map(|event| match event {
        Event::Thinking(more) => Some(more.as_str()),
        _ => None,
    });
    assert_eq!(thought.collect::<String>(), "a b\n\nc");
}

#[test]
fn responses_usage_is_normalised() {
    let mut end = completed();
    end["response"]["usage"] = json!({
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 17, "cost": 0.5});
    let usage = Usage {
        input_tokens: 10,
        output_tokens: 7,
        cache_read_tokens: 4,
        cache_write_tokens: 2,
        reasoning_tokens: 3,
        cost: Some("0.5".parse().unwrap()),
        ..Usage::default()
    };
    assert_eq!(decode(&[end]).unwrap().0.usage, usage);
}

#[test]
fn incomplete_event_sequences_are_decoded() {
    let message =
        json!({"type": "message", "content": [{"type": "output_text", "text": "hi", "annotations": []}]});
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
    let text = || Block::text("hi");
    let used = || Block::ToolUse { id: "c".into(), name: "f".into(), input: json!({}), raw: None };
    let unnumbered = |kind: &str, rest: Value| {
        let mut event = about(0, kind, rest);
        event.as_object_mut().unwrap().remove("output_index");
        event
    };

    // Nothing in pieces.
    let (turn, events) = decode(&[
        about(0, "output_item.done", json!({"item": message})),
        about(
            1,
            "output_item.added",
            json!({"item": {"type": "function_call", "call_id": "c", "name": "f"}}),
        ),
        about(1, "function_call_arguments.done", json!({"arguments": "{}"})),
        completed(),
    ])
    .unwrap();
    assert_eq!(turn.content, [text(), used()]);
    assert_eq!(events[0], Event::Text("hi".into()));
    assert_eq!(events[2], Event::ToolArguments { index: 0, json: "{}".into() });

    // Only pieces, without indices.
    let (turn, _) = decode(&[
        unnumbered("output_text.delta", json!({"delta": "h"})),
        unnumbered("output_text.delta", json!({"delta": "i"})),
        unnumbered("output_item.added", json!({"item": call})),
        unnumbered("output_item.done", json!({"item": call})),
        completed(),
    ])
    .unwrap();
    assert_eq!(turn.content, [text(), used()]);

    // Nothing before the end.
    let mut all = completed();
    all["response"]["output"] = json!([message, call]);
    let (turn, events) = decode(&[all]).unwrap();
    assert_eq!((turn.content, events.len()), (vec![text(), used()], 3));

    // Open reasoning is sent back; reasoning that is only an id is not.
    let open =
        json!({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}], "summary": []});
    let stored = json!({"type": "reasoning", "id": "rs", "content": null, "encrypted_content": null,
        "summary": [{"type": "summary_text", "text": "hm"}]});
    for (item, returned) in [(open, true), (stored, false)] {
        let (turn, events) =
            decode(&[about(0, "output_item.done", json!({"item": item})), completed()]).unwrap();
        assert!(
            matches!(&turn.content[..], [Block::Thinking { text, raw }] if text == "hm" && raw.is_some() == returned)
        );
        assert_eq!(events, [Event::Thinking("hm".into())]);
    }
}

#[test]
fn incomplete_response_reports_its_reason() {
    let incomplete = |reason: Value| {
        json!({"type": "response.incomplete", "response": {"status": "incomplete", "output": [],
            "incomplete_details": reason}})
    };
    let opened = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": ""});
    let (turn, _) = decode(&[
        about(0, "output_item.added", json!({"item": {"type": "reasoning", "encrypted_content": "early"}})),
        about(1, "output_item.added", json!({"item": {"type": "web_search_call"}})),
        about(2, "output_item.added", json!({"item": opened})),
        about(2, "function_call_arguments.delta", json!({"delta": "{\"n\""})),
        incomplete(json!({"reason": "max_output_tokens"})),
    ])
    .unwrap();
    assert_eq!((turn.stop, turn.content.len()), (StopReason::MaxTokens, 1));
    assert_eq!(turn.malformed, [("c".to_owned(), "{\"n\"".to_owned())]);
    let (turn, _) = decode(&[incomplete(json!({"reason": "content_filter"}))]).unwrap();
    assert_eq!(turn.stop, StopReason::Refusal);
    let (turn, _) = decode(&[incomplete(Value::Null)]).unwrap();
    assert_eq!(turn.stop, StopReason::MaxTokens);

    let refused = json!({"type": "message", "phase": "final_answer", "content": [{"type": "refusal", "refusal": "no"}]});
    let (turn, events) = decode(&[
        about(0, "refusal.delta", json!({"delta": "no"})),
        about(0, "refusal.done", json!({"refusal": "no"})),
        about(0, "output_item.done", json!({"item": refused})),
        completed(),
    ])
    .unwrap();
    assert_eq!((turn.stop, turn.content), (StopReason::Refusal, vec![Block::text("no")]));
    assert_eq!(events, [Event::Text("no".into())]);
}

#[test]
fn errors_are_recognised_in_every_form() {
    let error = json!({"type": "tokens", "code": "rate_limit_exceeded", "message": "slow down"});
    let failed = |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error, "output": []}});
    for (event, code) in [
        (json!({"type": "error", "error": error}), ModelErrorCode::RateLimited),
        (
            json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null}),
            ModelErrorCode::RateLimited,
        ),
        (json!({"error": error}), ModelErrorCode::RateLimited),
        (failed(error), ModelErrorCode::RateLimited),
        (
            failed(json!({"code": "context_length_exceeded", "message": "Your input is too long."})),
            ModelErrorCode::ContextLengthExceeded,
        ),
        (failed(Value::Null), ModelErrorCode::NetworkError),
        (
            json!({"type": "response.cancelled", "response": {"status": "cancelled"}}),
            ModelErrorCode::NetworkError,
        ),
        (json!({"type": "response.output_item.done", "item": 3}), ModelErrorCode::InvalidResponse),
        (json!({"type": "response.in_progress", "response": {}}), ModelErrorCode::NetworkError),
    ] {
        let error = decode(std::slice::from_ref(&event)).unwrap_err();
        assert_eq!(error.code, code, "{event}: {error}");
    }
}

#[test]
fn complete_response_decodes_like_its_stream() {
    let whole = |body: &Value| {
        let (mut decoder, mut events) = (ResponsesDecoder::new("openai"), VecDeque::new());
        decoder.whole_answer(&body.to_string(), &mut events).map(|()| Vec::from(events))
    };
    let answer = json!({"object": "response", "status": "completed", "error": null, "output": [
        {"type": "reasoning", "encrypted_content": "g", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"n\":1}"},
    ], "usage": {"input_tokens": 1, "output_tokens": 2}});
    let events = whole(&answer).unwrap();
    let [start, arguments, Event::Done(turn)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*start, Event::ToolStart { index: 0, id: "c".into(), name: "f".into() });
    assert_eq!(*arguments, Event::ToolArguments { index: 0, json: "{\"n\":1}".into() });
    assert_eq!((turn.stop, turn.content.len(), turn.usage.output_tokens), (StopReason::ToolUse, 2, 2));

    let error = json!({"error": {"code": "rate_limit_exceeded", "message": "slow down"}});
    assert_eq!(whole(&error).unwrap_err().code, ModelErrorCode::RateLimited);
    let queued = json!({"object": "response", "status": "queued", "output": []});
    assert_eq!(whole(&queued).unwrap_err().message, "the response has the status `queued`");
}

#[test]
fn stateless_request_contains_the_whole_history() {
    let reasoning = r#"{"type":"reasoning","encrypted_content":"g","summary":[]}"#;
    let raw = |provider: &str| RawBlock::new("openai_responses", provider, reasoning);
    let thinking = |provider: &str| Block::Thinking { text: String::new(), raw: Some(raw(provider)) };
    let system =
        [SystemPart { text: "a".into(), cached: true }, SystemPart { text: "b".into(), cached: false }];
    let entries = [
        Entry::user(vec![Block::text("1")]),
        Entry::assistant(vec![
            thinking("azure"),
            thinking("openai"),
            Block::text("hm"),
            Block::ToolUse { id: "toolu.1".into(), name: "f".into(), input: json!({"n": 1}), raw: None },
            thinking("openai"),
        ]),
        Entry::user(vec![Block::ToolResult {
            tool_use_id: "toolu.1".into(),
            content: "ok".into(),
            is_error: false,
            code: None,
        }]),
        Entry::user(vec![Block::text("2"), Block::text(" ")]),
    ];
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let tools: [ToolDefinition; 1] =
        [serde_json::from_value(json!({"name": "f", "description": "d", "input_schema": schema})).unwrap()];
    let request = Request {
        system: &system,
        entries: &entries,
        tools: &tools,
        max_output_tokens: 9,
        answer_schema: Some(AnswerSchema { name: "verdict", schema: &schema, strict: true }),
        cache_key: Some("goal_1"),
        ..Request::default()
    };
    let body = sent("gpt-5-mini", &request);
    let id = body["input"][3]["call_id"].as_str().unwrap();
    assert!(!id.contains('.'));
    assert_eq!(
        body,
        json!({
            "model": "gpt-5-mini", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 9, "prompt_cache_key": "goal_1", "instructions": "a\n\nb",
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": false}],
            "text": {"format": {"type": "json_schema", "name": "verdict", "strict": true, "schema": schema}},
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "1"}]},
                {"type": "reasoning", "encrypted_content": "g", "summary": []},
                {"type": "message", "role": "assistant", "content": "hm"},
                {"type": "function_call", "call_id": id, "name": "f", "arguments": "{\"n\":1}"},
                {"type": "function_call_output", "call_id": id, "output": "ok"},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "2"}, {"type": "input_text", "text": "(empty message)"},
                ]},
            ],
        })
    );
    let plain = sent("gpt-4.1", &Request { entries: &entries[..1], ..Request::default() });
    for left_out in ["include", "instructions", "tools", "text", "prompt_cache_key"] {
        assert!(plain.get(left_out).is_none(), "{left_out}");
    }
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
    let (tools, deferred) = ([tool("reply"), tool("find")], [tool("a")]);
    let deferred = Some(Deferred { tools: &deferred, finding: 1 });
    let sent = |model: &str| {
        sent(model, &Request { tools: &tools, deferred, ..Request::default() })["tools"].clone()
    };
    let plain = |name: &str| json!({"type": "function", "name": name, "description": "d", "parameters": {"type": "object", "properties": {}}, "strict": false});
    let mut late = plain("a");
    late["defer_loading"] = json!(true);
    assert_eq!(sent("gpt-5.4"), json!([plain("reply"), {"type": "tool_search"}, late]));
    assert_eq!(sent("gpt-5-mini"), json!([plain("reply"), plain("find")]));
}

/// A history in which a user, two tools and the user again speak.
fn with_tools() -> Vec<Entry> {
    let call = |id: &str| Block::ToolUse { id: id.into(), name: "look".into(), input: json!({}), raw: None };
    let result = |id: &str| Block::ToolResult {
        tool_use_id: id.into(),
        content: "seen".into(),
        is_error: false,
        code: None,
    };
    vec![
        Entry::user(vec![Block::text("one")]),
        Entry::assistant(vec![call("a"), call("b")]),
        Entry::user(vec![result("a"), result("b")]),
        Entry::assistant(vec![Block::text("So it is.")]),
        Entry::user(vec![Block::text("two")]),
    ]
}

#[test]
fn what_is_kept_ends_before_the_system_context() {
    use houston_domain::model_policy::CachePolicy;
    let entries = with_tools();
    let request = Request {
        entries: &entries,
        system_context: Some("now"),
        cache_key: Some("key"),
        max_output_tokens: 9,
        ..Request::default()
    };
    let body = sent("gpt-6-sol", &request);
    assert_eq!(body["prompt_cache_options"], json!({"mode": "explicit"}));
    let mark = json!({"mode": "explicit"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let marked =
        |text: &str| json!({"type": "input_text", "text": text, "prompt_cache_breakpoint": mark.clone()});
    assert_eq!(body["input"][6]["content"], json!([marked("two"), text("now")]));
    assert_eq!(body["input"][5]["content"], json!("So it is."));
    // Only the end of a turn is marked; all results have one form, so that the next request begins like this one.
    assert_eq!(body["input"][4]["output"], json!([marked("seen")]));
    assert_eq!(body["input"][3]["output"], json!([text("seen")]));
    assert_eq!(body["input"][0]["content"], json!([text("one")]));
    let long = sent("gpt-6-sol", &Request { cache: CachePolicy::Long, ..request });
    assert_eq!(long["prompt_cache_options"], json!({"mode": "explicit", "ttl": "12h"}));
    // Writing is billed: what nobody reads again is not written.
    for request in [Request { cache: CachePolicy::Off, ..request }, Request { cache_key: None, ..request }] {
        let body = sent("gpt-6-sol", &request);
        assert_eq!(body["prompt_cache_options"], json!({"mode": "explicit"}));
        assert!(!body.to_string().contains("prompt_cache_breakpoint") && body["prompt_cache_key"].is_null());
    }
}

#[test]
fn older_models_get_a_key_and_longer_retention_if_asked() {
    use houston_domain::model_policy::CachePolicy;
    let entries = with_tools();
    let request =
        Request { entries: &entries, cache_key: Some("key"), max_output_tokens: 9, ..Request::default() };
    let body = sent("gpt-5.5", &request);
    assert_eq!(body["prompt_cache_key"], "key");
    assert!(!body.to_string().contains("prompt_cache_options") && body["prompt_cache_retention"].is_null());
    assert_eq!(
        sent("gpt-5.5", &Request { cache: CachePolicy::Long, ..request })["prompt_cache_retention"],
        "24h"
    );
    assert!(sent("gpt-5.5", &Request { cache: CachePolicy::Off, ..request })["prompt_cache_key"].is_null());
}

#[test]
fn tier_follows_the_latency_where_the_model_has_it() {
    use houston_domain::model::Tier;
    use houston_domain::model_policy::Latency;
    let entries = with_tools();
    let tier = |model, latency| {
        let request = Request { entries: &entries, max_output_tokens: 9, latency, ..Request::default() };
        sent(model, &request)["service_tier"].as_str().map(str::to_owned)
    };
    for (model, latency, expected) in [
        ("gpt-5.5", Latency::Interactive, None),
        ("gpt-5.5", Latency::Relaxed, Some("flex")),
        ("gpt-5.5", Latency::Batch, Some("flex")),
        ("gpt-5.5", Latency::Fast, Some("priority")),
        ("gpt-6.2-sol", Latency::Relaxed, None),
        ("gpt-6.2-sol", Latency::Fast, Some("priority")),
    ] {
        assert_eq!(tier(model, latency).as_deref(), expected, "{model} {latency:?}");
    }
    for (named, expected) in
        [("flex", Some(Tier::Flex)), ("default", None), ("priority", Some(Tier::Priority))]
    {
        let mut end = completed();
        end["response"]["service_tier"] = json!(named);
        end["response"]["usage"] = json!({"input_tokens": 10, "output_tokens": 1});
        assert_eq!(decode(&[end]).unwrap().0.usage.tier, expected, "{named}");
    }
}
