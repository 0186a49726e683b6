use std::collections::VecDeque;

use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason, Usage};
use serde_json::{Value, json};

use super::super::{AnswerEnd, Decoder as _, Wire};
use super::encode;
use super::stream::ChatDecoder;
use crate::model::{AnswerSchema, Description, Event, Request, SystemPart};
use crate::profile::Profile;

/// The profile of a model of `provider`.
fn profile(provider: &str) -> Profile {
    Profile::on(Wire::OpenAiChat, provider, "x")
}

/// Chunks with these deltas, then a chunk with `finish`, then the end mark.
fn decode(deltas: &[Value], finish: Value) -> Result<(ModelAnswer, Vec<Event>), ModelError> {
    let (mut decoder, mut events) = (ChatDecoder::new("x", AnswerEnd::DoneMark), VecDeque::new());
    for delta in deltas {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null});
        decoder.event("", &chunk.to_string(), &mut events)?;
    }
    if !finish.is_null() {
        decoder.event("", &finish.to_string(), &mut events)?;
    }
    decoder.event("", "[DONE]", &mut events)?;
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("no end: {events:?}") };
    Ok((*turn, events.into()))
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
}

fn calls(deltas: &[Value], reason: &str) -> Vec<(String, String, Value)> {
    let deltas: Vec<Value> =
        deltas.iter().map(|calls| json!({"content": null, "tool_calls": calls})).collect();
    let (turn, _) = decode(&deltas, finish(reason)).unwrap();
    assert_eq!(turn.stop, StopReason::ToolUse);
    let calls = turn.content.into_iter().map(|block| match block {
        Block::ToolUse { id, name, input, .. } => (id, name, input),
        other => panic!("{other:?}"),
    });
    calls.collect()
}

#[test]
fn tool_call_pieces_are_assembled() {
    let null = || Value::Null;
    let (one, two) = (json!({"n": 1}), json!({"n": 2}));
    let expect = |id: &str, name: &str, input: &Value| (id.to_owned(), name.to_owned(), input.clone());

    let interleaved = [
        json!([piece(json!(0), json!("a"), json!("f"), json!(""))]),
        json!([piece(json!(1), json!("b"), json!("g"), json!("{\"n\""))]),
        json!([piece(json!(0), null(), null(), json!("{\"n\":"))]),
        json!([
            piece(json!(1), json!("b"), json!(""), json!(": 2}")),
            piece(json!(0), null(), null(), json!(" 1}"))
        ]),
    ];
    assert_eq!(calls(&interleaved, "tool_calls"), [expect("a", "f", &one), expect("b", "g", &two)]);

    let one_number_for_two = [
        json!([piece(json!(0), json!("a"), json!("f"), json!("{\"n\":1}"))]),
        json!([piece(json!(0), json!("b"), json!("f"), json!("{\"n\":2}"))]),
    ];
    assert_eq!(calls(&one_number_for_two, "stop"), [expect("a", "f", &one), expect("b", "f", &two)]);

    let no_numbers_no_ids = [
        json!([piece(null(), null(), json!("f"), one.clone())]),
        json!([piece(null(), null(), json!("g"), null())]),
    ];
    assert_eq!(calls(&no_numbers_no_ids, "stop"), [expect("", "f", &one), expect("", "g", &json!({}))]);

    let name_after_arguments = [
        json!([piece(json!(0), json!("a"), null(), json!("{\"n\""))]),
        json!([piece(json!(0), null(), json!("f"), json!(":1}"))]),
    ];
    assert_eq!(calls(&name_after_arguments, "tool_calls"), [expect("a", "f", &one)]);
}

#[test]
fn truncated_arguments_are_reported_as_malformed() {
    let delta = json!({"tool_calls": [piece(json!(0), json!("a"), json!("f"), json!("{\"n\": 1"))]});
    let (turn, _) = decode(&[delta], finish("length")).unwrap();
    assert_eq!(turn.stop, StopReason::MaxTokens);
    assert_eq!(turn.malformed, [("a".to_owned(), "{\"n\": 1".to_owned())]);
    assert!(matches!(&turn.content[0], Block::ToolUse { input, .. } if *input == json!({})));
}

#[test]
fn answer_is_complete_only_at_the_end_mark() {
    let text = json!({"content": "hi"});
    assert_eq!(decode(std::slice::from_ref(&text), Value::Null).unwrap().0.stop, StopReason::EndTurn);
    assert_eq!(
        decode(std::slice::from_ref(&text), finish("error")).unwrap_err().code,
        ModelErrorCode::NetworkError
    );

    // A finish reason, and the end of the connection.
    let ended = |end| {
        let (mut decoder, mut events) = (ChatDecoder::new("x", end), VecDeque::new());
        decoder.event("", &finish("stop").to_string(), &mut events).unwrap();
        decoder.end(&mut events).map_err(|error| error.code)
    };
    assert_eq!(ended(AnswerEnd::DoneMark), Err(ModelErrorCode::NetworkError));
    assert_eq!(ended(AnswerEnd::FinishReason), Ok(()));
    assert_eq!(ended(AnswerEnd::Unknown), Err(ModelErrorCode::NetworkError));

    // An error after the finish reason is still an error.
    let (mut decoder, mut events) = (ChatDecoder::new("x", AnswerEnd::DoneMark), VecDeque::new());
    decoder.event("", &finish("stop").to_string(), &mut events).unwrap();
    let error = json!({"error": {"code": 429, "message": "slow down"}, "choices": []}).to_string();
    assert_eq!(decoder.event("", &error, &mut events).unwrap_err().code, ModelErrorCode::RateLimited);
}

#[test]
fn usage_is_read_from_all_fields_and_normalised() {
    let usage = |usage: Value| {
        let mut chunk = finish("stop");
        chunk.as_object_mut().unwrap().extend(usage.as_object().unwrap().clone());
        decode(&[], chunk).unwrap().0.usage
    };
    assert_eq!(
        usage(json!({"x_groq": {"id": "r", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}})),
        Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() }
    );
    // More cached than input tokens, as recorded from xAI on Foundry; and reasoning that the output count excludes.
    let nonsense = json!({"usage": {
        "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 32, "prompt_tokens_details": {"cached_tokens": 161},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }});
    assert_eq!(
        usage(nonsense),
        Usage {
            input_tokens: 7,
            output_tokens: 25,
            cache_read_tokens: 7,
            reasoning_tokens: 20,
            ..Usage::default()
        }
    );
    let nulls =
        json!({"usage": {"prompt_tokens": 1, "completion_tokens": null, "prompt_tokens_details": null}});
    assert_eq!(usage(nulls).input_tokens, 1);
    let charged = |cost: Value| usage(json!({"usage": {"prompt_tokens": 1, "cost": cost}})).cost;
    assert_eq!(charged(json!(0.000_014_1)).unwrap().to_string(), "0.0000141");
    assert_eq!(charged(json!({"total_cost": 0.006})).unwrap().to_string(), "0.006");
    assert_eq!(charged(Value::Null), None);
}

#[test]
fn content_parts_and_refusals_decode_to_text() {
    let parts = json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]});
    let (turn, events) = decode(&[parts], finish("stop")).unwrap();
    assert_eq!(events, [Event::Thinking("hm".into()), Event::Text("yes".into())]);
    assert_eq!(turn.content.len(), 2);
    let (turn, _) = decode(&[json!({"refusal": "no"})], finish("stop")).unwrap();
    assert_eq!((turn.stop, &turn.content[..]), (StopReason::Refusal, &[Block::text("no")][..]));
}

#[test]
fn providers_get_only_what_they_accept() {
    let model = |provider: &str| Description {
        provider: provider.into(),
        model: "m".into(),
        simulated: false,
        supports_tools: true,
    };
    let system =
        [SystemPart { text: "a".into(), cached: true }, SystemPart { text: "b".into(), cached: false }];
    let entries = [
        Entry::user(vec![Block::text("1")]),
        Entry::user(vec![Block::text("2")]),
        Entry::assistant(vec![Block::ToolUse {
            id: "toolu_01".into(),
            name: "f".into(),
            input: json!({"n": 1}),
            raw: None,
        }]),
        Entry::user(vec![Block::ToolResult {
            tool_use_id: "toolu_01".into(),
            content: "ok".into(),
            is_error: false,
            code: None,
        }]),
        Entry::user(vec![Block::text("3")]),
    ];
    let sent = |provider| -> Value {
        let request = Request {
            system: &system,
            entries: &entries,
            tools: &[],
            max_output_tokens: 9,
            ..Request::default()
        };
        serde_json::from_slice(&encode(&model("x"), &profile(provider), &request)).unwrap()
    };
    let openai = sent("openai");
    assert_eq!((openai["max_completion_tokens"].as_u64(), openai.get("max_tokens")), (Some(9), None));
    assert_eq!(
        openai["messages"],
        json!([
            {"role": "system", "content": "a\n\nb"},
            {"role": "user", "content": "1\n\n2"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "toolu_01", "type": "function", "function": {"name": "f", "arguments": "{\"n\":1}"}},
            ]},
            {"role": "tool", "tool_call_id": "toolu_01", "content": "ok"},
            {"role": "user", "content": "3"},
        ])
    );
    assert!(openai.get("response_format").is_none() && openai.get("prompt_cache_key").is_none());
    let mistral = sent("mistral");
    assert!(mistral.get("stream_options").is_none());
    let id = mistral["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && mistral["messages"][3]["tool_call_id"] == id);
    let roles: Vec<&Value> = mistral["messages"].as_array().unwrap().iter().map(|one| &one["role"]).collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "assistant", "user"],
        "no user message directly after a tool result"
    );
}

#[test]
fn schema_is_sent_as_the_provider_supports() {
    let model =
        Description { provider: "x".into(), model: "m".into(), simulated: false, supports_tools: true };
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let request = Request {
        answer_schema: Some(AnswerSchema { name: "verdict", schema: &schema, strict: true }),
        cache_key: Some("goal_1"),
        ..Request::default()
    };
    let sent = |provider| -> Value {
        serde_json::from_slice(&encode(&model, &profile(provider), &request)).unwrap()
    };
    let openai = sent("openai");
    assert_eq!(openai["prompt_cache_key"], "goal_1");
    assert_eq!(
        openai["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "verdict", "strict": false, "schema": schema}})
    );
    assert_eq!(openai["messages"], json!([]));
    for (provider, format) in [("deepseek", Some(json!({"type": "json_object"}))), ("groq", None)] {
        let body = sent(provider);
        assert_eq!(body.get("response_format"), format.as_ref());
        assert!(body.get("prompt_cache_key").is_none());
        assert!(body["messages"][0]["content"].as_str().unwrap().ends_with(&schema.to_string()));
    }
}

#[test]
fn delta_is_used_instead_of_accumulated_message() {
    // As Perplexity sends it.
    let chunk = |delta: &str, message: &str, finish: Value| {
        json!({"choices": [{"index": 0, "finish_reason": finish,
            "delta": {"role": "assistant", "content": delta}, "message": {"content": message}}]})
    };
    let (mut decoder, mut events) =
        (ChatDecoder::new("perplexity", AnswerEnd::FinishReason), VecDeque::new());
    for data in [chunk("a", "a", Value::Null), chunk("b", "ab", json!("stop"))] {
        decoder.event("", &data.to_string(), &mut events).unwrap();
    }
    decoder.end(&mut events).unwrap();
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("{events:?}") };
    assert_eq!(turn.content, [Block::text("ab")]);

    let (mut decoder, mut events) =
        (ChatDecoder::new("perplexity", AnswerEnd::FinishReason), VecDeque::new());
    decoder.whole_answer(&chunk("", "ab", json!("stop")).to_string(), &mut events).unwrap();
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("{events:?}") };
    assert_eq!(turn.content, [Block::text("ab")]);
}

#[test]
fn call_signature_is_sent_back_only_to_its_provider() {
    let signature = json!({"google": {"thought_signature": "S+/="}});
    let mut call = piece(json!(0), json!("a"), json!("f"), json!("{}"));
    call["extra_content"] = signature.clone();
    let (turn, _) = decode(&[json!({"tool_calls": [call]})], finish("tool_calls")).unwrap();
    let entries = [Entry::user(vec![Block::text("1")]), Entry::assistant(turn.content)];
    let sent = |provider: &str| -> Value {
        let model = Description {
            provider: provider.into(),
            model: "m".into(),
            simulated: false,
            supports_tools: true,
        };
        let request = Request { entries: &entries, ..Request::default() };
        serde_json::from_slice(&encode(&model, &profile("x"), &request)).unwrap()
    };
    assert_eq!(sent("x")["messages"][1]["tool_calls"][0]["extra_content"], signature);
    assert!(sent("y")["messages"][1]["tool_calls"][0].get("extra_content").is_none());
}

#[test]
fn tier_and_cache_are_said_as_the_provider_has_them() {
    use houston_domain::model::Tier;
    use houston_domain::model_policy::{CachePolicy, Latency};
    let entries = [Entry::user(vec![Block::text("hi")])];
    let sent = |provider: &str, name: &str, cache, latency| -> Value {
        let model = Description {
            provider: provider.into(),
            model: name.into(),
            simulated: false,
            supports_tools: true,
        };
        let request = Request {
            entries: &entries,
            max_output_tokens: 9,
            cache_key: Some("key"),
            cache,
            latency,
            ..Request::default()
        };
        let profile = Profile::on(Wire::OpenAiChat, provider, name);
        serde_json::from_slice(&encode(&model, &profile, &request)).unwrap()
    };
    let relaxed = sent("openai", "gpt-5-mini", CachePolicy::Long, Latency::Relaxed);
    assert_eq!(
        (&relaxed["service_tier"], &relaxed["prompt_cache_retention"]),
        (&json!("flex"), &json!("24h"))
    );
    let usual = sent("openai", "gpt-5-mini", CachePolicy::Auto, Latency::Interactive);
    assert!(usual["service_tier"].is_null() && usual["prompt_cache_retention"].is_null());
    for (cache, expected) in [
        (CachePolicy::Auto, Value::Null),
        (CachePolicy::Long, json!({"mode": "implicit", "ttl": "12h"})),
        (CachePolicy::Off, json!({"mode": "explicit"})),
    ] {
        let body = sent("openai", "gpt-6-sol", cache, Latency::Interactive);
        assert_eq!(body["prompt_cache_options"], expected, "{cache:?}");
    }
    // A provider without a cheap tier is asked as usual, and one that is not known is told nothing.
    for provider in ["groq", "local", "deepseek"] {
        let body = sent(provider, "m", CachePolicy::Long, Latency::Relaxed).to_string();
        assert!(!body.contains("service_tier") && !body.contains("prompt_cache"), "{body}");
    }
    let (answer, _) = decode(
        &[json!({"content": "hi"})],
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "service_tier": "flex",
            "usage": {"prompt_tokens": 10, "completion_tokens": 1}}),
    )
    .unwrap();
    assert_eq!(answer.usage.tier, Some(Tier::Flex));
}
