//! Renders answers in the format of OpenAI's chat completions stream.

use serde_json::{Value, json};

use super::plan::Rendered;
use super::reply::{Answer, Part, cut};

/// Renders `answer` to call `number`.
pub(crate) fn render(answer: &Answer, number: usize) -> Rendered {
    let id = format!("chatcmpl-{number}");
    let event = |delta: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        chunk(&id, json!([choice]), None)
    };
    let (mut pieces, mut calls) = (Vec::new(), 0);
    for part in &answer.parts {
        match part {
            Part::Text(text) => {
                let text = cut(text, answer.pieces);
                pieces.extend(text.iter().map(|piece| event(json!({ "content": piece }))));
            }
            Part::Tool { name, arguments } => {
                let call = json!({
                    "index": calls, "id": format!("call_{number}_{calls}"), "type": "function",
                    "function": {"name": name, "arguments": ""},
                });
                let mut start = Some(event(json!({ "tool_calls": [call] })));
                for piece in cut(&arguments.to_string(), answer.pieces) {
                    let more = json!({"index": calls, "function": {"arguments": piece}});
                    let more = event(json!({ "tool_calls": [more] }));
                    pieces.push(start.take().unwrap_or_default() + &more);
                }
                calls += 1;
            }
        }
    }
    let reason = if calls == 0 { "stop" } else { "tool_calls" };
    let last = json!([{"index": 0, "delta": {}, "finish_reason": reason}]);
    let (input, output) = answer.usage;
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                       "prompt_tokens_details": {"cached_tokens": 0}});
    Rendered {
        opening: event(json!({"role": "assistant", "content": ""})),
        pieces,
        ending: chunk(&id, last, None) + &chunk(&id, json!([]), Some(usage)) + "data: [DONE]\n\n",
    }
}

fn chunk(id: &str, choices: Value, usage: Option<Value>) -> String {
    let mut chunk = json!({
        "id": id, "object": "chat.completion.chunk", "created": 1_795_000_000, "model": "scripted",
        "choices": choices,
    });
    if let (Some(usage), Value::Object(chunk)) = (usage, &mut chunk) {
        chunk.insert("usage".to_owned(), usage);
    }
    format!("data: {chunk}\n\n")
}

/// An error inside a stream.
pub(crate) fn error_event() -> String {
    let error = json!({"error": {
        "message": "The server is overloaded", "type": "server_error", "code": "overloaded",
    }});
    format!("data: {error}\n\n")
}

/// The body of an error response.
pub(crate) fn error_body(status: u16) -> String {
    let (kind, code, message) = match status {
        401 => ("invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
        404 => ("invalid_request_error", "model_not_found", "The model does not exist"),
        429 => ("requests", "rate_limit_exceeded", "Rate limit reached"),
        400..=499 => ("invalid_request_error", "invalid_request", "The request is invalid"),
        _ => ("server_error", "server_error", "The server had an error"),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
}
