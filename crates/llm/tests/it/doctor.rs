//! A real model is tried for each field of its profile.

use houston_domain::model::ModelErrorCode as Code;
use houston_llm::doctor::{MOST_REQUESTS, Report, examine};
use houston_llm::{Choice, Secret, Timeouts};
use serde_json::{Value, json};

use crate::caller::http;
use crate::server::{Connection, chunk, server};

/// What a server refuses: the message and the parameter.
type Refuse = fn(&Value) -> Option<(&'static str, &'static str)>;

fn answer(connection: &mut Connection, body: &Value) {
    connection.begin();
    let tier = body.get("service_tier").cloned().unwrap_or_else(|| json!("default"));
    let forced = body["tool_choice"]["function"]["name"].as_str();
    let delta = match forced {
        Some(name) => json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
            "function": {"name": name, "arguments": "{\"text\": \"yes\"}"}}]}),
        None => json!({"content": "{\"answer\": \"yes\"}"}),
    };
    let finish = if forced.is_some() { "tool_calls" } else { "stop" };
    let event = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "service_tier": tier,
        "usage": {"prompt_tokens": 100, "completion_tokens": 5}});
    connection.event(&event.to_string());
    connection.send(&format!("{}0\r\n\r\n", chunk("[DONE]")));
}

async fn examined(provider: &str, model: &str, refuse: Refuse) -> Report {
    let (base, _) = server(move |mut connection| {
        loop {
            let (_, body) = connection.request.split_once("\r\n\r\n").unwrap_or_default();
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            match refuse(&body) {
                None => answer(&mut connection, &body),
                Some((message, param)) => {
                    let error = json!({"error": {"message": message, "param": param, "type": "invalid_request_error"}});
                    let head = "content-type: application/json\r\n";
                    connection.answer("400 Bad Request", head, &error.to_string());
                }
            }
            if !connection.next() {
                return;
            }
        }
    });
    let key = Some(Secret::new("sk-123456"));
    let choice = Choice { base_url: Some(base), key, ..Choice::new(provider, model) };
    examine(&choice, &http(Timeouts::default()), &|_| None, None).await.unwrap()
}

#[tokio::test]
async fn model_that_is_as_the_table_says_needs_no_lines() {
    let report = examined("openai", "gpt-4.1-mini", |body| {
        body.get("max_tokens").map(|_| ("Unsupported parameter: 'max_tokens'", "max_tokens"))
    })
    .await;
    assert_eq!(report.lines(), None, "{report:?}");
    assert!(report.requests as u64 <= MOST_REQUESTS && report.usage.input_tokens > 0, "{report:?}");
}

#[tokio::test]
async fn fields_that_a_model_refuses_are_named_with_their_lines() {
    let report = examined("openai", "gpt-4.1-mini", |body| {
        if body.get("max_completion_tokens").is_some() {
            return Some(("Unsupported parameter: 'max_completion_tokens'", "max_completion_tokens"));
        }
        if body.get("temperature").is_some() {
            return Some(("Unsupported value: 'temperature' does not support 0.5", "temperature"));
        }
        if body.get("service_tier").is_some_and(|tier| tier == "flex") {
            return Some(("Invalid service_tier argument", "service_tier"));
        }
        if body["response_format"]["type"] == "json_schema" {
            return Some(("This response_format type is unavailable now", ""));
        }
        let forced = body["tool_choice"].is_object() || body["tool_choice"] == "required";
        forced.then_some(("Thinking mode does not support this tool_choice", ""))
    })
    .await;
    let lines = report.lines().unwrap();
    for line in [
        "[profiles.\"openai/gpt-4.1-mini\"]\n",
        "output_limit = \"max_tokens\"\n",
        "temperature = false\n",
        "result_schema = \"json_object\"\n",
        "relaxed_tier = \"\"\n",
    ] {
        assert!(lines.contains(line), "{line} is missing: {lines}");
    }
    assert!(!lines.contains("top_p = false\nstop") && !lines.contains("fast_tier"), "{lines}");
    // It answers without the call, so that nothing works.
    let forced = report.fields.iter().find(|finding| finding.field == "forced_tool").unwrap();
    assert_eq!((forced.found.as_ref(), forced.differs()), (None, false));
    // What is printed is what `jobs/models.toml` takes.
    let rows = lines.lines().skip(1).map(|line| line.split_once(" = ").unwrap());
    let rows: serde_json::Map<String, Value> =
        rows.map(|(field, value)| (field.to_owned(), serde_json::from_str(value).unwrap())).collect();
    let _: houston_llm::profile::Changes = serde_json::from_value(Value::Object(rows)).unwrap();
}

#[tokio::test]
async fn model_that_cannot_be_asked_is_an_error() {
    let (base, _) = server(|mut connection| {
        let head = "content-type: application/json\r\n";
        connection.answer("401 Unauthorized", head, r#"{"error": {"message": "Incorrect API key"}}"#);
    });
    let key = Some(Secret::new("sk-123456"));
    let choice = Choice { base_url: Some(base), key, ..Choice::new("openai", "gpt-4.1-mini") };
    let error = examine(&choice, &http(Timeouts::default()), &|_| None, None).await.unwrap_err();
    assert_eq!(error.code, Code::AuthenticationError);
}
