//! Calls that are answered later: submitted, looked at, fetched, withdrawn, and what they cost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use houston_domain::model::{ModelAnswer, Tier};
use houston_domain::model_policy::Latency;
use houston_domain::submission::SubmittedCall;
use houston_llm::{Choice, Event, Ledger, Model, Request, Secret, Submitting, Timeouts, connect, metered};
use serde_json::{Value, json};

use crate::caller::{entries, http};
use crate::server::server;

/// The answers of a provider in their order: status and body. It is asked one request after the other.
type Answers = Vec<(&'static str, Value)>;

/// What it was asked: method and path, and the body.
type Seen = Arc<Mutex<Vec<(String, Value)>>>;

fn provider(provider: &str, name: &str, answers: Answers) -> (Arc<dyn Model>, Seen) {
    let (seen, answers) = (Seen::default(), Arc::new(Mutex::new(VecDeque::from(answers))));
    let log = Arc::clone(&seen);
    let (base, _) = server(move |mut connection| {
        loop {
            let (head, body) = connection.request.split_once("\r\n\r\n").unwrap_or_default();
            let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
            log.lock().unwrap().push((line, serde_json::from_str(body).unwrap_or_default()));
            let next = answers.lock().unwrap().pop_front();
            let (status, body) = next.expect("a request that the test does not expect");
            connection.answer(status, "content-type: application/json\r\n", &body.to_string());
            if !connection.next() {
                return;
            }
        }
    });
    let choice =
        Choice { base_url: Some(base), key: Some(Secret::new("sk-123456")), ..Choice::new(provider, name) };
    (metered(connect(&choice, &http(Timeouts::default()), &|_| None).unwrap()), seen)
}

/// What comes of a request.
#[derive(Debug, PartialEq)]
enum Came {
    Submitted(SubmittedCall),
    Gone,
    Answer(Box<ModelAnswer>),
}

async fn ask(model: &dyn Model, latency: Latency, submitting: Submitting<'_>, ledger: &Ledger) -> Came {
    let entries = entries();
    let request = Request {
        entries: &entries,
        max_output_tokens: 10,
        latency,
        submitting,
        ledger: Some(ledger),
        ..Request::default()
    };
    let mut stream = model.stream(&request).await.unwrap();
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            Event::Submitted(call) => return Came::Submitted(*call),
            Event::Gone => return Came::Gone,
            Event::Done(answer) => return Came::Answer(answer),
            _ => {}
        }
    }
    panic!("the stream ended");
}

fn cost(ledger: &Ledger) -> String {
    let [used] = ledger.take().try_into().unwrap();
    let call = used.call(1, "2026-11-29T12:00:00Z".parse().unwrap());
    call.usage.cost.unwrap().normalize().to_string()
}

fn response(status: &str) -> Value {
    json!({"id": "resp_1", "status": status, "service_tier": "default", "error": null,
        "usage": {"input_tokens": 1_000_000, "output_tokens": 0},
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]})
}

fn queued() -> Value {
    json!({"id": "resp_1", "status": "queued", "output": [], "error": null})
}

#[tokio::test]
async fn windows_are_asked_for_and_named_as_their_tier() {
    for (latency, window, tier) in
        [(Latency::Relaxed, "2h", Tier::TwoHours), (Latency::Batch, "8h", Tier::EightHours)]
    {
        let answers = vec![("200 OK", queued()), ("200 OK", queued()), ("200 OK", response("completed"))];
        let (model, seen) = provider("openai", "gpt-6.2-sol", answers);
        let ledger = Ledger::default();
        let Came::Submitted(call) = ask(&*model, latency, Submitting::Allowed, &ledger).await else {
            panic!("answered at once")
        };
        let again = ask(&*model, latency, Submitting::Fetch(&call), &ledger).await;
        assert_eq!(again, Came::Submitted(call.clone()));
        assert!(ledger.is_empty(), "nothing is used yet");
        let Came::Answer(answer) = ask(&*model, latency, Submitting::Fetch(&call), &ledger).await else {
            panic!("no answer")
        };
        assert_eq!((answer.usage.input_tokens, answer.usage.tier), (1_000_000, Some(tier)));
        let seen = seen.lock().unwrap();
        let body = &seen[0].1;
        assert_eq!(seen[0].0, "POST /v1/responses");
        assert_eq!(body["background_options"], json!({"completion_window": window}));
        let flags = [&body["background"], &body["store"], &body["stream"], &body["service_tier"]];
        assert_eq!(flags, [&json!(true), &json!(true), &json!(false), &Value::Null]);
        assert_eq!(seen[1].0, "GET /v1/responses/resp_1");
    }
}

#[tokio::test]
async fn batches_are_asked_for_and_cost_half() {
    let state = |state| json!({"id": "msgbatch_1", "processing_status": state});
    let result = json!({"custom_id": "answer", "result": {"type": "succeeded", "message": {
        "type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}],
        "usage": {"input_tokens": 100_000, "output_tokens": 0, "service_tier": "batch"}}}});
    let answers = vec![
        ("200 OK", state("in_progress")),
        ("200 OK", state("in_progress")),
        ("200 OK", state("ended")),
        ("200 OK", result),
    ];
    let (model, seen) = provider("anthropic", "claude-sonnet-4-5", answers);
    let ledger = Ledger::default();
    let batch = Latency::Batch;
    let Came::Submitted(call) = ask(&*model, batch, Submitting::Allowed, &ledger).await else { panic!() };
    assert_eq!(ask(&*model, batch, Submitting::Fetch(&call), &ledger).await, Came::Submitted(call.clone()));
    let came = ask(&*model, batch, Submitting::Fetch(&call), &ledger).await;
    assert!(matches!(came, Came::Answer(_)), "{came:?}");
    assert_eq!(cost(&ledger), "0.15", "half of 3 dollars a million");
    let seen = seen.lock().unwrap();
    let paths: Vec<&str> = seen.iter().map(|(line, _)| line.as_str()).collect();
    let one = "GET /v1/messages/batches/msgbatch_1";
    assert_eq!(paths, ["POST /v1/messages/batches", one, one, &format!("{one}/results")]);
    let params = &seen[0].1["requests"][0]["params"];
    assert_eq!((&params["model"], &params["stream"]), (&json!("claude-sonnet-4-5"), &Value::Null));
}

#[tokio::test]
async fn what_gets_no_answer_is_gone() {
    let ended = || json!({"id": "msgbatch_1", "processing_status": "ended"});
    let of =
        |kind: &str| json!({"custom_id": "answer", "result": {"type": kind, "error": {"type": "error"}}});
    let call = SubmittedCall {
        model: "anthropic/claude-sonnet-4-5".into(),
        id: "msgbatch_1".into(),
        tier: Tier::Batch,
    };
    let not_found = ("404 Not Found", json!({"type": "error", "error": {"type": "not_found_error"}}));
    for answers in [
        vec![("200 OK", ended()), ("200 OK", of("errored"))],
        vec![("200 OK", ended()), ("200 OK", of("expired"))],
        vec![("200 OK", ended()), ("200 OK", of("canceled"))],
        vec![not_found],
    ] {
        let (model, _) = provider("anthropic", "claude-sonnet-4-5", answers);
        let came = ask(&*model, Latency::Batch, Submitting::Fetch(&call), &Ledger::default()).await;
        assert_eq!(came, Came::Gone);
    }
    let failed =
        ("200 OK", json!({"id": "r", "status": "failed", "error": {"code": "server_error"}, "output": []}));
    let (model, _) = provider("openai", "gpt-6.2-sol", vec![failed]);
    let call = SubmittedCall { tier: Tier::TwoHours, ..call };
    let came = ask(&*model, Latency::Batch, Submitting::Fetch(&call), &Ledger::default()).await;
    assert_eq!(came, Came::Gone);
}

#[tokio::test]
async fn unwanted_call_is_withdrawn() {
    let (model, seen) = provider("openai", "gpt-6.2-sol", vec![("200 OK", response("cancelled"))]);
    let call =
        SubmittedCall { model: "openai/gpt-6.2-sol".into(), id: "resp_1".into(), tier: Tier::EightHours };
    let came = ask(&*model, Latency::Batch, Submitting::Withdraw(&call), &Ledger::default()).await;
    assert_eq!((came, &*seen.lock().unwrap()[0].0), (Came::Gone, "POST /v1/responses/resp_1/cancel"));
}

/// A provider without such calls answers as usual, and is not asked for them again.
#[tokio::test]
async fn provider_without_windows_answers_at_once() {
    let refusal = json!({"error": {"message": "Unknown parameter: 'background_options'.", "param": "background_options"}});
    let done = || ("200 OK", response("completed"));
    let (model, seen) = provider("openai", "gpt-6.2-sol", vec![("400 Bad Request", refusal), done(), done()]);
    for sent in [2, 3] {
        let came = ask(&*model, Latency::Relaxed, Submitting::Allowed, &Ledger::default()).await;
        assert!(matches!(came, Came::Answer(_)), "{came:?}");
        assert_eq!(seen.lock().unwrap().len(), sent);
    }
}

/// Who cannot wait for an answer is never told to.
#[tokio::test]
async fn calls_that_need_an_answer_are_not_submitted() {
    let (model, seen) = provider("openai", "gpt-6.2-sol", vec![("200 OK", response("completed"))]);
    let came = ask(&*model, Latency::Batch, Submitting::No, &Ledger::default()).await;
    assert!(matches!(came, Came::Answer(_)), "{came:?}");
    assert_eq!(seen.lock().unwrap()[0].1["background"], Value::Null);
}

/// What is no id is not stored, and not made a part of an address.
#[tokio::test]
async fn answer_without_a_usable_id_is_an_error() {
    for id in [json!(null), json!(7), json!("a\u{0}b"), json!("x y"), json!("x".repeat(300))] {
        let answers = vec![("200 OK", json!({"id": id, "status": "queued", "output": []}))];
        let (model, _) = provider("openai", "gpt-6.2-sol", answers);
        let entries = entries();
        let request = Request {
            entries: &entries,
            max_output_tokens: 10,
            latency: Latency::Batch,
            submitting: Submitting::Allowed,
            ..Request::default()
        };
        let error = model.stream(&request).await.err().unwrap();
        assert_eq!(error.code.as_str(), "INVALID_RESPONSE", "{id}: {error}");
    }
}
