//! Renders answers in the format of Anthropic's messages stream.

use serde_json::{Value, json};

use super::plan::Rendered;
use super::reply::{Answer, Part, cut};

/// Renders `answer` to call `number`.
pub(crate) fn render(answer: &Answer, number: usize) -> Rendered {
    let (mut pieces, mut calls) = (Vec::new(), 0);
    for (index, part) in answer.parts.iter().enumerate() {
        let (block, kind, field, text) = match part {
            Part::Text(text) => (json!({"type": "text", "text": ""}), "text_delta", "text", text.clone()),
            Part::Tool { name, arguments } => {
                let id = format!("toolu_{number}_{calls}");
                calls += 1;
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                (block, "input_json_delta", "partial_json", arguments.to_string())
            }
        };
        // The start event goes with the first piece, the end event with the last.
        let start = json!({"type": "content_block_start", "index": index, "content_block": block});
        let mut start = Some(event(&start));
        for piece in cut(&text, answer.pieces) {
            let delta = json!({"type": kind, field: piece});
            let delta = event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
            pieces.push(start.take().unwrap_or_default() + &delta);
        }
        if let Some(last) = pieces.last_mut() {
            last.push_str(&event(&json!({"type": "content_block_stop", "index": index})));
        }
    }
    let reason = if calls == 0 { "end_turn" } else { "tool_use" };
    let (input, output) = answer.usage;
    let message = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "scripted",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": input, "output_tokens": 1, "cache_read_input_tokens": 0,
                  "cache_creation_input_tokens": 0},
    });
    let stop = json!({
        "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": output},
    });
    Rendered {
        opening: event(&json!({"type": "message_start", "message": message}))
            + &event(&json!({"type": "ping"})),
        pieces,
        ending: event(&stop) + &event(&json!({"type": "message_stop"})),
    }
}

/// `answer` to call `number` in one piece.
pub(crate) fn whole(answer: &Answer, number: usize) -> Value {
    let mut calls = 0;
    let content: Vec<Value> = answer
        .parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => json!({"type": "text", "text": text}),
            Part::Tool { name, arguments } => {
                calls += 1;
                json!({"type": "tool_use", "id": format!("toolu_{number}_{}", calls - 1), "name": name,
                    "input": arguments})
            }
        })
        .collect();
    let (input, output) = answer.usage;
    json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "scripted",
        "content": content, "stop_reason": if calls > 0 { "tool_use" } else { "end_turn" },
        "usage": {"input_tokens": input, "output_tokens": output, "service_tier": "batch"},
    })
}

fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

/// An error inside a stream.
pub(crate) fn error_event() -> String {
    event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
}

/// The body of an error response.
pub(crate) fn error_body(status: u16) -> String {
    let (kind, message) = match status {
        401 => ("authentication_error", "invalid x-api-key"),
        404 => ("not_found_error", "model: scripted"),
        429 => ("rate_limit_error", "This request would exceed your rate limit"),
        529 => ("overloaded_error", "Overloaded"),
        400..=499 => ("invalid_request_error", "The request is invalid"),
        _ => ("api_error", "Internal server error"),
    };
    json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
}
