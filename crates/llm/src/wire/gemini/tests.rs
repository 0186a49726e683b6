use std::collections::VecDeque;

use houston_domain::history::{Block, Entry, RawBlock};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason, Usage};
use houston_domain::tool_call::ToolDefinition;
use serde_json::{Value, json};

use super::super::Decoder as _;
use super::encode;
use super::stream::GeminiDecoder;
use crate::model::{AnswerSchema, Description, Event, Request, SystemPart};
use crate::profile::Profile;
use crate::protocol::Wire;

fn encode_for(model: &Description, request: &Request<'_>) -> Vec<u8> {
    encode(model, &Profile::on(Wire::Gemini, &model.provider, &model.model), request)
}

fn decode(data: &[Value]) -> Result<(ModelAnswer, Vec<Event>), ModelError> {
    let (mut decoder, mut events) = (GeminiDecoder::new("google"), VecDeque::new());
    for chunk in data {
        decoder.event("", &chunk.to_string(), &mut events)?;
    }
    decoder.end(&mut events)?;
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("no end: {events:?}") };
    Ok((*turn, events.into()))
}

fn chunk(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}]})
}

fn raw_block(json: &Value) -> RawBlock {
    RawBlock::new("gemini", "google", json.to_string())
}

fn sent(model: &str, request: &Request<'_>) -> Value {
    let model = Description {
        provider: "google".into(),
        model: model.into(),
        simulated: false,
        supports_tools: true,
    };
    serde_json::from_slice(&encode_for(&model, request)).unwrap()
}

#[test]
fn signature_is_sent_back_on_the_same_part() {
    let signed = json!({"text": "b", "thoughtSignature": "S1"});
    let empty = json!({"text": "", "thoughtSignature": "S2"});
    let call = json!({"functionCall": {"name": "f", "args": {"n": 1}}, "thoughtSignature": "S3"});
    let named = json!({"functionCall": {"id": "x1", "name": "g", "args": {}}});
    let (turn, events) = decode(&[
        chunk(json!([{"text": "hm", "thought": true}])),
        chunk(json!([{"text": "a"}, signed])),
        chunk(json!([{"text": "c"}])),
        chunk(json!([{"text": "d"}, empty, {"text": ""}])),
        chunk(json!([call, named, {"functionCall": {"name": "h"}}])),
        finish("STOP"),
    ])
    .unwrap();
    let used = |id: &str, name: &str, input: Value, raw| Block::ToolUse {
        id: id.into(),
        name: name.into(),
        input,
        raw,
    };
    assert_eq!(
        turn.content,
        [
            Block::Thinking { text: "hm".into(), raw: None },
            Block::Text {
                text: "abcd".into(),
                raw: Some(raw_block(&json!([{"text": "a"}, signed, {"text": "cd"}, empty])))
            },
            used("", "f", json!({"n": 1}), Some(raw_block(&call))),
            used("x1", "g", json!({}), Some(raw_block(&named))),
            used("", "h", json!({}), None),
        ]
    );
    assert_eq!(turn.stop, StopReason::ToolUse);
    assert_eq!(events.len(), 1 + 4 + 3 + 2);

    // A signature on an empty text is kept as the only block.
    let (turn, _) = decode(&[chunk(json!([empty])), finish("STOP")]).unwrap();
    assert_eq!(turn.content, [Block::Opaque { raw: raw_block(&json!([empty])) }]);
    let entries = [
        Entry::user(vec![Block::text("1")]),
        Entry::assistant(turn.content),
        Entry::user(vec![Block::text("2")]),
    ];
    let body = sent("gemini-3-pro", &Request { entries: &entries, ..Request::default() });
    assert_eq!(body["contents"][1], json!({"role": "model", "parts": [empty]}));
}

#[test]
fn parts_after_a_finish_reason_are_decoded() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "6*7"}, "thoughtSignature": "S"});
    let result = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}});
    let mut paused = chunk(json!([code]));
    paused["candidates"][0]["finishReason"] = "STOP".into();
    let goes_on = [paused, chunk(json!([result])), chunk(json!([{"text": "42"}]))];
    assert_eq!(decode(&goes_on).unwrap_err().code, ModelErrorCode::NetworkError);

    let (turn, _) = decode(&[&goes_on[..], &[finish("STOP")]].concat()).unwrap();
    assert_eq!(turn.stop, StopReason::EndTurn);
    assert_eq!(
        turn.content,
        [
            Block::Opaque { raw: raw_block(&code) },
            Block::Opaque { raw: raw_block(&result) },
            Block::text("42")
        ]
    );
}

#[test]
fn finish_reasons_are_mapped() {
    let text = || chunk(json!([{"text": "hi"}]));
    for (reason, stop) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("MODEL_ARMOR", StopReason::Refusal),
    ] {
        assert_eq!(decode(&[text(), finish(reason)]).unwrap().0.stop, stop, "{reason}");
    }
    let malformed = json!({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL",
        "finishMessage": "Malformed function call: print(", "index": 0}]});
    let error = decode(&[malformed]).unwrap_err();
    assert_eq!(error.code, ModelErrorCode::InvalidResponse);
    assert!(error.message.ends_with("MALFORMED_FUNCTION_CALL: Malformed function call: print("));

    let unknown = chunk(json!([{"functionCall": {"name": "no_such_tool", "args": {}}}]));
    let (turn, _) = decode(&[unknown, finish("UNEXPECTED_TOOL_CALL")]).unwrap();
    assert_eq!((turn.stop, turn.content.len()), (StopReason::ToolUse, 1));
    assert!(decode(&[text(), finish("UNEXPECTED_TOOL_CALL")]).is_err());

    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}});
    let (turn, _) = decode(&[blocked]).unwrap();
    assert_eq!((turn.stop, turn.usage.input_tokens, turn.content.len()), (StopReason::Refusal, 7, 0));

    assert_eq!(decode(&[text()]).unwrap_err().code, ModelErrorCode::NetworkError);
    let in_pieces = json!([{"functionCall": {"name": "f", "willContinue": true}}]);
    assert_eq!(decode(&[chunk(in_pieces)]).unwrap_err().code, ModelErrorCode::InvalidResponse);
    let listed = chunk(json!([{"functionCall": {"name": "f", "args": [1]}}]));
    assert_eq!(decode(&[listed, finish("STOP")]).unwrap().0.malformed, [(String::new(), "[1]".to_owned())]);
}

#[test]
fn errors_and_answers_decode_alone_and_in_arrays() {
    let error =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    for data in [error.clone(), json!([error])] {
        let failure = decode(&[chunk(json!([{"text": "hi"}])), data.clone()]).unwrap_err();
        assert_eq!((failure.status, &*failure.message), (Some(503), "The model is overloaded."), "{data}");
    }
    let whole = |body: &Value| {
        let (mut decoder, mut events) = (GeminiDecoder::new("google"), VecDeque::new());
        decoder.whole_answer(&body.to_string(), &mut events).map(|()| Vec::from(events))
    };
    let mut answer = chunk(json!([{"text": "hi"}]));
    answer["candidates"][0]["finishReason"] = "STOP".into();
    let other = json!({"content": {"parts": [{"text": "another"}]}, "index": 1});
    answer["candidates"].as_array_mut().unwrap().push(other);
    for body in [
        answer.clone(),
        json!([chunk(json!([{"text": "h"}])), chunk(json!([{"text": "i"}])), finish("STOP")]),
    ] {
        let Some(Event::Done(turn)) = whole(&body).unwrap().pop() else { panic!("{body}") };
        assert_eq!(turn.content, [Block::text("hi")]);
    }
    assert_eq!(whole(&json!([error])).unwrap_err().status, Some(503));
    assert_eq!(whole(&json!([])).unwrap_err().code, ModelErrorCode::NetworkError);
}

#[test]
fn usage_includes_thoughts_and_tool_input() {
    let usage = |usage: Value| json!({"usageMetadata": usage});
    let (turn, _) = decode(&[
        usage(json!({"promptTokenCount": 10, "thoughtsTokenCount": 5, "cachedContentTokenCount": 8})),
        finish("STOP"),
        usage(json!({"promptTokenCount": 10, "candidatesTokenCount": 3, "toolUsePromptTokenCount": 20})),
    ])
    .unwrap();
    let expected = Usage {
        input_tokens: 30,
        output_tokens: 8,
        cache_read_tokens: 8,
        cache_write_tokens: 0,
        reasoning_tokens: 5,
        ..Usage::default()
    };
    assert_eq!(turn.usage, expected);
}

fn use_of(id: &str, name: &str, raw: Option<RawBlock>) -> Block {
    Block::ToolUse { id: id.into(), name: name.into(), input: json!({}), raw }
}

fn result_of(id: &str, is_error: bool) -> Block {
    Block::ToolResult { tool_use_id: id.into(), content: format!("of {id}"), is_error, code: None }
}

#[test]
fn tool_results_are_sent_in_the_order_of_the_calls() {
    let first = json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "S"});
    let second = json!({"functionCall": {"id": "x1", "name": "g", "args": {}}});
    let entries = [
        Entry::user(vec![Block::text("1")]),
        Entry::assistant(vec![
            use_of("call_1_1", "f", Some(raw_block(&first))),
            use_of("x1", "g", Some(raw_block(&second))),
        ]),
        Entry::user(vec![result_of("x1", true), result_of("call_1_1", false)]),
        Entry::user(vec![Block::text("2")]),
    ];
    let body = sent("gemini-3-pro", &Request { entries: &entries, ..Request::default() });
    assert_eq!(
        body["contents"],
        json!([
            {"role": "user", "parts": [{"text": "1"}]},
            {"role": "model", "parts": [first, second]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "of call_1_1"}}},
                {"functionResponse": {"id": "x1", "name": "g", "response": {"error": "of x1"}}},
                {"text": "2"},
            ]},
        ])
    );
}

#[test]
fn tool_calls_of_other_models_get_a_placeholder_signature() {
    let signature = RawBlock::new("anthropic", "anthropic", r#"{"type":"thinking"}"#);
    let entries = [
        Entry::user(vec![Block::text("1")]),
        Entry::assistant(vec![
            Block::Thinking { text: "hm".into(), raw: Some(signature) },
            use_of("toolu_1", "f", None),
            use_of("toolu_2", "no such tool", None),
        ]),
        Entry::user(vec![result_of("toolu_1", false), result_of("toolu_2", false)]),
    ];
    let parts = |model: &str| {
        let body = sent(model, &Request { entries: &entries, ..Request::default() });
        (body["contents"][1]["parts"].clone(), body["contents"][2]["parts"][1].clone())
    };
    let second = json!({"functionCall": {"id": "toolu_2", "name": "no_such_tool", "args": {}}});
    let first = json!({"functionCall": {"id": "toolu_1", "name": "f", "args": {}},
        "thoughtSignature": "skip_thought_signature_validator"});
    let (calls, result) = parts("gemini-3.5-flash");
    assert_eq!(calls, json!([first, second]));
    assert_eq!(result["functionResponse"]["id"], "toolu_2");
    assert_eq!(result["functionResponse"]["name"], "no_such_tool");
    assert!(parts("gemini-2.5-flash").0[0].get("thoughtSignature").is_none());
    assert!(parts("gemini-flash-latest").0[0].get("thoughtSignature").is_some());
}

#[test]
fn generation_config_depends_on_the_model() {
    let schema = json!({"type": "object", "properties": {}});
    let form = Some(AnswerSchema { name: "verdict", schema: &schema, strict: true });
    let tools: [ToolDefinition; 1] =
        [serde_json::from_value(json!({"name": "f", "description": "d", "input_schema": schema})).unwrap()];
    let system =
        [SystemPart { text: "a".into(), cached: true }, SystemPart { text: " ".into(), cached: false }];
    let with = |model: &str, tools: &[ToolDefinition], answer_schema| {
        let request =
            Request { system: &system, tools, answer_schema, max_output_tokens: 9, ..Request::default() };
        sent(model, &request)
    };
    assert_eq!(
        with("gemini-3.5-flash", &tools, form),
        json!({
            "systemInstruction": {"parts": [{"text": "a"}]},
            "contents": [],
            "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": schema}]}],
            "generationConfig": {
                "maxOutputTokens": 9, "thinkingConfig": {"includeThoughts": true},
                "responseMimeType": "application/json", "responseJsonSchema": schema,
            },
        })
    );
    // A schema or tools, not both.
    let both = with("gemini-2.5-pro", &tools, form);
    assert!(both["generationConfig"].get("responseJsonSchema").is_none());
    assert!(both["systemInstruction"]["parts"][1]["text"].as_str().unwrap().ends_with(&schema.to_string()));
    assert!(with("gemini-2.5-pro", &[], form)["generationConfig"].get("responseJsonSchema").is_some());

    for (model, thinks) in [
        ("gemini-2.5-flash", true),
        ("models/gemini-flash-latest", true),
        ("gemini-4-argon", true),
        ("gemini-2.0-flash", false),
        ("gemini-2.5-flash-image", false),
        ("gemini-2.5-flash-preview-tts", false),
        ("gemma-3-27b-it", false),
    ] {
        let config = &with(model, &[], None)["generationConfig"];
        assert_eq!(config.get("thinkingConfig").is_some(), thinks, "{model}");
    }
}
