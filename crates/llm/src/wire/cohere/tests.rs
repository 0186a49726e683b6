use std::collections::VecDeque;

use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode as Code, StopReason};
use houston_domain::tool_call::ToolDefinition;
use serde_json::{Value, json};

use super::super::{AnswerEnd, Decoder as _};
use super::encode;
use super::stream::CohereDecoder;
use crate::model::{AnswerSchema, Description, Event, Request, SystemPart};
use crate::profile::Profile;
use crate::protocol::Wire;

fn encode_for(model: &Description, request: &Request<'_>) -> Vec<u8> {
    encode(model, &Profile::on(Wire::Cohere, &model.provider, &model.model), request)
}

fn decode(data: &[Value]) -> Result<(ModelAnswer, Vec<Event>), ModelError> {
    let (mut decoder, mut events) = (CohereDecoder::new("cohere", AnswerEnd::DoneMark), VecDeque::new());
    for event in data {
        decoder.event("", &event.to_string(), &mut events)?;
    }
    decoder.end(&mut events)?;
    let Some(Event::Done(turn)) = events.pop_back() else { panic!("no end: {events:?}") };
    Ok((*turn, events.into()))
}

fn event(kind: &str, index: u64, message: Value) -> Value {
    json!({"type": kind, "index": index, "delta": {"message": message}})
}

fn end(reason: &str) -> Value {
    let usage = json!({
        "billed_units": {"input_tokens": 65, "output_tokens": 63},
        "tokens": {"input_tokens": 508.0, "output_tokens": 86, "reasoning_tokens": 28},
        "cached_tokens": 144,
    });
    json!({"type": "message-end", "delta": {"finish_reason": reason, "usage": usage}})
}

fn sent(request: &Request<'_>) -> Value {
    let model = Description {
        provider: "cohere".into(),
        model: "command".into(),
        simulated: false,
        supports_tools: true,
    };
    serde_json::from_slice(&encode_for(&model, request)).unwrap()
}

fn call(index: u64, id: &str, name: &str) -> Value {
    let function = json!({"name": name, "arguments": ""});
    event(
        "tool-call-start",
        index,
        json!({"tool_calls": {"id": id, "type": "function", "function": function}}),
    )
}

fn arguments(index: u64, json: &str) -> Value {
    event("tool-call-delta", index, json!({"tool_calls": {"function": {"arguments": json}}}))
}

#[test]
fn thinking_plans_text_and_citations_round_trip() {
    let citation = json!({"start": 0, "end": 3, "text": "Yes", "sources": [{"type": "tool", "id": "a:0"}]});
    let (turn, events) = decode(&[
        event("message-start", 0, json!({"content": [], "tool_calls": [], "citations": [], "tool_plan": ""})),
        event("content-start", 0, json!({"content": {"type": "thinking", "thinking": ""}})),
        event("content-delta", 0, json!({"content": {"thinking": "h"}})),
        event("content-delta", 0, json!({"content": {"thinking": "m"}})),
        json!({"type": "content-end", "index": 0}),
        event("content-delta", 1, json!({"content": {"text": "Yes"}})),
        event("citation-start", 0, json!({"citations": citation})),
        event("tool-plan-delta", 0, json!({"tool_plan": "I will"})),
        event("tool-plan-delta", 0, json!({"tool_plan": " call"})),
        call(0, "a", "f"),
        call(1, "b", "g"),
        arguments(0, "{\"n\""),
        arguments(1, "{"),
        arguments(0, ":1}"),
        json!({"type": "some-future-event", "delta": {"anything": [1]}}),
        end("TOOL_CALL"),
    ])
    .unwrap();
    assert_eq!(turn.stop, StopReason::ToolUse);
    assert_eq!(turn.malformed, [("b".to_owned(), "{".to_owned())]);
    let usage = turn.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (508, 86), "all tokens, not the billed ones");
    assert_eq!((usage.cache_read_tokens, usage.reasoning_tokens), (144, 28));
    assert_eq!(
        events[..3],
        [Event::Thinking("h".into()), Event::Thinking("m".into()), Event::Text("Yes".into())]
    );

    let result = |id: &str| Block::ToolResult {
        tool_use_id: id.into(),
        content: "ok".into(),
        is_error: false,
        code: None,
    };
    let entries = [
        Entry::user(vec![Block::text("hi")]),
        Entry::assistant(turn.content),
        Entry::user(vec![result("a"), result("b"), Block::text("and?")]),
    ];
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let body = sent(&Request { entries: &entries, max_output_tokens: 9, ..Request::default() });
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant",
             "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes"}],
             "tool_plan": "I will call",
             "tool_calls": [call("a", "f", "{\"n\":1}"), call("b", "g", "{}")],
             "citations": [citation]},
            {"role": "tool", "tool_call_id": "a", "content": "ok"},
            {"role": "tool", "tool_call_id": "b", "content": "ok"},
            {"role": "user", "content": "and?"},
        ])
    );
    assert_eq!((body["max_tokens"].as_u64(), &body["stream"]), (Some(9), &json!(true)));
}

#[test]
fn schema_is_sent_unless_there_are_tools() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let system = [SystemPart { text: "s".into(), cached: true }];
    let entries = [Entry::user(vec![Block::text(" ")])];
    let request = Request {
        system: &system,
        entries: &entries,
        answer_schema: Some(AnswerSchema { name: "form", schema: &schema, strict: true }),
        ..Request::default()
    };
    let body = sent(&request);
    assert_eq!(body["response_format"], json!({"type": "json_object", "json_schema": schema}));
    assert_eq!(
        body["messages"],
        json!([{"role": "system", "content": "s"}, {"role": "user", "content": "(empty message)"}])
    );
    let tool: ToolDefinition =
        serde_json::from_value(json!({"name": "f", "description": "d", "input_schema": {"type": "object"}}))
            .unwrap();
    let body = sent(&Request { tools: &[tool], ..request });
    assert!(body.get("response_format").is_none());
    assert_eq!(body["tools"][0]["function"]["parameters"], json!({"type": "object", "properties": {}}));
}

#[test]
fn failure_finish_reason_is_an_error() {
    let text = event("content-delta", 0, json!({"content": {"text": "hi"}}));
    let code = |data: &[Value]| decode(data).unwrap_err().code;
    assert_eq!(code(std::slice::from_ref(&text)), Code::NetworkError);
    assert_eq!(code(&[text.clone(), end("ERROR")]), Code::NetworkError);
    assert_eq!(code(&[text.clone(), end("TIMEOUT")]), Code::Timeout);
    let limit =
        json!({"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "too many tokens: 9"}});
    assert_eq!(code(&[limit]), Code::ContextLengthExceeded);
    assert_eq!(code(&[json!({"message": "invalid api key"})]), Code::AuthenticationError);
    assert_eq!(code(&[arguments(0, "{}")]), Code::InvalidResponse);
    assert_eq!(decode(&[text, end("MAX_TOKENS")]).unwrap().0.stop, StopReason::MaxTokens);
}

#[test]
fn complete_answer_decodes_like_its_stream() {
    let function = json!({"name": "f", "arguments": "{\"n\":1}"});
    let body = json!({"id": "x", "finish_reason": "TOOL_CALL", "message": {
        "role": "assistant", "tool_plan": "I will", "citations": [{"start": 0, "end": 1}],
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}],
        "tool_calls": [{"id": "a", "type": "function", "function": function}],
    }, "usage": {"billed_units": {"input_tokens": 3, "output_tokens": 2}}});
    let (mut decoder, mut events) = (CohereDecoder::new("cohere", AnswerEnd::DoneMark), VecDeque::new());
    decoder.whole_answer(&body.to_string(), &mut events).unwrap();
    let Some(Event::Done(turn)) = events.back() else { panic!("{events:?}") };
    assert_eq!((turn.content.len(), turn.stop, turn.usage.input_tokens), (4, StopReason::ToolUse, 3));
    assert!(
        matches!(&turn.content[2], Block::Text { raw: Some(raw), .. } if &*raw.json == r#"[{"start":0,"end":1}]"#)
    );
    let refused = decoder.whole_answer(r#"{"message": "no"}"#, &mut events).unwrap_err();
    assert!(!refused.message.is_empty());
}
