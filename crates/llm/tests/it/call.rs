//! Complete answers, and answers with a schema.

use houston_domain::model::ModelErrorCode as Code;
use houston_llm::{Answer, AnswerSchema, Request, Timeouts, call};
use serde_json::{Value, json};

use crate::caller::{entries, model};
use crate::server::server;

/// Answers successive calls with these texts; returns the result and the requests.
async fn answered(
    texts: &'static [&'static str],
    schema: Option<&Value>,
) -> (Result<Answer, houston_domain::model::ModelError>, Vec<Value>) {
    let (base, requests) = server(move |mut connection| {
        let mut requests = Vec::new();
        for text in texts {
            let (_, body) = connection.request.split_once("\r\n\r\n").unwrap();
            requests.push(serde_json::from_str::<Value>(body).unwrap());
            let answer = json!({
                "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 3}
            });
            connection.answer("200 OK", "content-type: application/json\r\n", &answer.to_string());
            if !connection.next() {
                break;
            }
        }
        requests
    });
    let (entries, model) = (entries(), model(&base, Timeouts::default()));
    let answer_schema = schema.map(|schema| AnswerSchema { name: "person", schema, strict: true });
    let request = Request { entries: &entries, max_output_tokens: 50, answer_schema, ..Request::default() };
    let answer = call(&*model, &request).await;
    drop(model);
    let requests = tokio::task::spawn_blocking(move || requests.recv().unwrap()).await.unwrap();
    (answer, requests)
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": false
    })
}

#[tokio::test]
async fn call_returns_text_usage_and_model() {
    let (answer, requests) = answered(&["Hello."], None).await;
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), &answer.value), ("Hello.", &None));
    assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (10, 3));
    assert_eq!(answer.model.to_string(), "local/m");
    assert_eq!(requests[0]["messages"].as_array().unwrap().len(), 1, "only the user's message");
}

/// What a call gets whose first answers are used up by thinking, and the limits that were sent.
async fn thought(used_up: usize) -> (Result<Answer, houston_domain::model::ModelError>, Vec<Value>) {
    let (base, requests) = server(move |mut connection| {
        let mut limits = Vec::new();
        loop {
            let (_, body) = connection.request.split_once("\r\n\r\n").unwrap();
            let thinks = limits.len() < used_up;
            limits.push(serde_json::from_str::<Value>(body).unwrap()["max_tokens"].clone());
            let (text, reason) = if thinks { ("", "length") } else { ("Hello.", "stop") };
            let answer = json!({
                "choices": [{"message": {"content": text, "reasoning_content": "Hm."}, "finish_reason": reason}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 3}
            });
            connection.answer("200 OK", "content-type: application/json\r\n", &answer.to_string());
            if !connection.next() {
                return limits;
            }
        }
    });
    let (entries, model) = (entries(), model(&base, Timeouts::default()));
    let request = Request { entries: &entries, max_output_tokens: 50, ..Request::default() };
    let answer = call(&*model, &request).await;
    drop(model);
    let limits = tokio::task::spawn_blocking(move || requests.recv().unwrap()).await.unwrap();
    (answer, limits)
}

#[tokio::test]
async fn answer_used_up_by_thinking_is_asked_for_once_more() {
    let (answer, limits) = thought(1).await;
    let answer = answer.unwrap();
    assert_eq!((&*answer.text, answer.usage.output_tokens), ("Hello.", 6));
    assert_eq!(limits, [50, 100]);
    let (answer, limits) = thought(9).await;
    let error = answer.unwrap_err();
    assert_eq!(error.code, Code::OutputLimitReached);
    assert!(error.message.contains("100 output tokens"), "{error}");
    assert_eq!(limits, [50, 100]);
}

#[tokio::test]
async fn schema_answer_is_parsed_with_and_without_code_fence() {
    for texts in [&[r#"{"name":"Ann","age":30}"#], &["```json\n{\"name\": \"Ann\", \"age\": 30}\n```"]] {
        let (answer, requests) = answered(texts, Some(&person())).await;
        assert_eq!(answer.unwrap().value, Some(json!({"name": "Ann", "age": 30})));
        assert_eq!(requests.len(), 1);
        let prompt = requests[0]["messages"][0]["content"].to_string();
        assert!(prompt.contains("JSON Schema") && prompt.contains("additionalProperties"), "{prompt}");
    }
}

#[tokio::test]
async fn schema_violation_is_sent_back_once() {
    let texts = &[r#"{"name":"Ann","age":"thirty"}"#, r#"{"name":"Ann","age":30}"#];
    let (answer, requests) = answered(texts, Some(&person())).await;
    let answer = answer.unwrap();
    assert_eq!(answer.value, Some(json!({"name": "Ann", "age": 30})));
    assert_eq!(answer.usage.input_tokens, 20, "both calls are counted");
    let messages = requests[1]["messages"].as_array().unwrap();
    let messages: Vec<String> =
        messages.iter().rev().take(2).map(|message| message["content"].to_string()).collect();
    assert!(messages[0].contains("/age: must be of type"), "{}", messages[0]);
    assert!(messages[1].contains("thirty"), "{}", messages[1]);

    let (answer, requests) = answered(&["Sorry?", "I am Ann."], Some(&person())).await;
    let error = answer.unwrap_err();
    assert_eq!((error.code, requests.len()), (Code::InvalidResponse, 2));
    assert!(
        error.message.starts_with(
            "local/m: two answers in a row did not match the schema `person`: it is not valid JSON"
        ),
        "{}",
        error.message
    );
}
