//! A refusal that contradicts the profile of a model is understood, and the request sent once the other way.

use std::sync::{Arc, Mutex};

use houston_domain::model::ModelErrorCode as Code;
use houston_domain::tool_call::ToolDefinition;
use houston_llm::{Choice, Event, Http, Model, Request, Secret, Timeouts, connect};
use serde_json::{Value, json};

use crate::caller::{call, entries, http};
use crate::server::{Connection, chunk, server};

/// Answers a request whose body `refuse` has nothing against.
fn respond(connection: &mut Connection, refuse: fn(&str, &Value) -> Option<(u16, Value)>) {
    let (head, body) = connection.request.split_once("\r\n\r\n").unwrap_or_default();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    if let Some((status, error)) = refuse(&path, &body) {
        return connection.answer(
            &format!("{status} Refused"),
            "content-type: application/json\r\n",
            &error.to_string(),
        );
    }
    connection.begin();
    if path.ends_with("/responses") {
        let done = json!({"type": "response.completed", "response": {"status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]}});
        return connection.send(&format!("{}0\r\n\r\n", chunk(&done.to_string())));
    }
    connection.event(r#"{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#);
    connection.send(&format!("{}0\r\n\r\n", chunk("[DONE]")));
}

/// The paths and bodies that a server was sent.
type Seen = Arc<Mutex<Vec<(String, Value)>>>;

/// A server that refuses as `refuse` says, and the bodies that it was sent with their paths.
fn refusing(refuse: fn(&str, &Value) -> Option<(u16, Value)>) -> (String, Seen) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let (base, _) = server(move |mut connection| {
        loop {
            let (head, body) = connection.request.split_once("\r\n\r\n").unwrap_or_default();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            log.lock().unwrap().push((path, serde_json::from_str(body).unwrap_or_default()));
            respond(&mut connection, refuse);
            if !connection.next() {
                return;
            }
        }
    });
    (base, seen)
}

fn model(http: &Http, base: &str, provider: &str, name: &str) -> Arc<dyn Model> {
    let choice = Choice {
        base_url: Some(base.to_owned()),
        key: Some(Secret::new("sk-123456")),
        ..Choice::new(provider, name)
    };
    connect(&choice, http, &|_| None).unwrap()
}

async fn says(model: &dyn Model) -> String {
    let (events, error) = call(model).await;
    assert_eq!(error, None);
    let texts = events.iter().filter_map(|event| match event {
        Event::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn refusal(message: &str, param: &str) -> Option<(u16, Value)> {
    let error = json!({"message": message, "type": "invalid_request_error", "param": param, "code": null});
    Some((400, json!({ "error": error })))
}

#[tokio::test]
async fn refused_limit_is_sent_by_its_other_name_and_remembered() {
    let (base, seen) = refusing(|_, body| {
        body.get("max_tokens")?;
        refusal(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
        )
    });
    let http = http(Timeouts::default());
    // The second model is another object of the same process.
    for sent in [2, 3] {
        let model = model(&http, &base, "local", "gpt-of-my-own");
        assert_eq!(says(&*model).await, "hi");
        assert_eq!(seen.lock().unwrap().len(), sent);
    }
    let seen = seen.lock().unwrap();
    assert!(seen[0].1.get("max_tokens").is_some() && seen[1].1.get("max_completion_tokens").is_some());
    assert!(seen[2].1.get("max_tokens").is_none());
}

#[tokio::test]
async fn refused_chat_completions_are_sent_to_responses() {
    let (base, seen) = refusing(|path, body| {
        let is_refused = path.ends_with("/chat/completions") && body.get("tools").is_some();
        is_refused.then_some(())?;
        refusal(
            "Function tools with reasoning_effort are not supported for gpt-x in /v1/chat/completions. Please use /v1/responses instead.",
            "reasoning_effort",
        )
    });
    let model = model(&http(Timeouts::default()), &base, "openai", "gpt-x");
    let (entries, tools) = (entries(), [tool("look")]);
    for sent in [2, 3] {
        let request =
            Request { entries: &entries, tools: &tools, max_output_tokens: 10, ..Request::default() };
        let answer = houston_llm::call(&*model, &request).await.unwrap();
        assert_eq!((&*answer.text, seen.lock().unwrap().len()), ("hi", sent));
    }
    let paths: Vec<String> = seen.lock().unwrap().iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(paths, ["/v1/chat/completions", "/v1/responses", "/v1/responses"]);
}

fn tool(name: &str) -> ToolDefinition {
    serde_json::from_value(json!({"name": name, "description": "", "input_schema": {"type": "object"}}))
        .unwrap()
}

#[tokio::test]
async fn refused_forced_tool_and_temperature_are_left_out() {
    let (base, seen) = refusing(|_, body| {
        if body.get("tool_choice").is_some() {
            return refusal("Thinking mode does not support this tool_choice", "");
        }
        body.get("temperature")?;
        refusal(
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
            "temperature",
        )
    });
    let model = model(&http(Timeouts::default()), &base, "local", "thinker");
    let (entries, tools) = (entries(), [tool("look"), tool("find")]);
    let request = Request {
        entries: &entries,
        tools: &tools,
        must_call: Some("find"),
        temperature: Some(0.2),
        max_output_tokens: 10,
        ..Request::default()
    };
    assert_eq!(houston_llm::call(&*model, &request).await.unwrap().text, "hi");
    let seen = seen.lock().unwrap();
    let last = &seen.last().unwrap().1;
    assert_eq!((seen.len(), last.get("tool_choice"), last.get("temperature")), (3, None, None));
    assert_eq!(last["tools"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn refusal_that_no_correction_helps_is_told_once() {
    let (base, seen) = refusing(|_, _| {
        refusal(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_tokens",
        )
    });
    let model = model(&http(Timeouts::default()), &base, "local", "stubborn");
    for sent in [2, 4] {
        let (_, error) = call(&*model).await;
        let error = error.unwrap();
        assert_eq!((error.code, error.status), (Code::Unknown, Some(400)), "{error}");
        // Nothing is remembered of a correction that did not help.
        assert_eq!(seen.lock().unwrap().len(), sent);
    }
}

#[tokio::test]
async fn server_without_responses_is_asked_by_chat_completions() {
    let (base, seen) =
        refusing(|path, _| path.ends_with("/responses").then(|| (404, json!({"detail": "Not Found"}))));
    let model = model(&http(Timeouts::default()), &base, "openai", "gpt-5.5");
    assert_eq!(says(&*model).await, "hi");
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn compressed_answer_is_named() {
    let (base, _connections) = server(|mut connection| {
        assert!(connection.request.contains("accept-encoding: identity\r\n"));
        connection.answer("200 OK", "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n", "x");
    });
    let (_, error) = call(&*model(&http(Timeouts::default()), &base, "local", "m")).await;
    let error = error.unwrap();
    assert!(error.code == Code::InvalidResponse && error.message.contains("compressed"), "{error}");
}
