//! Service tiers: who asks for a cheap one is answered and billed by it, or by the usual one if it has no room.

use std::sync::{Arc, Mutex};

use houston_domain::model_policy::{CachePolicy, Latency};
use houston_llm::{Choice, Ledger, Model, Request, Secret, Timeouts, connect, metered};
use serde_json::{Value, json};

use crate::caller::{entries, http};
use crate::server::{Connection, chunk, server};

type Seen = Arc<Mutex<Vec<Value>>>;

/// How a server answers the body of a request.
type Respond = fn(&mut Connection, &Value);

fn serve(respond: Respond) -> (String, Seen) {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let (base, _) = server(move |mut connection| {
        loop {
            let (_, body) = connection.request.split_once("\r\n\r\n").unwrap_or_default();
            let body: Value = serde_json::from_str(body).unwrap_or_default();
            log.lock().unwrap().push(body.clone());
            respond(&mut connection, &body);
            if !connection.next() {
                return;
            }
        }
    });
    (base, seen)
}

fn model(base: &str, provider: &str, name: &str) -> Arc<dyn Model> {
    let choice = Choice {
        base_url: Some(base.to_owned()),
        key: Some(Secret::new("sk-123456")),
        ..Choice::new(provider, name)
    };
    metered(connect(&choice, &http(Timeouts::default()), &|_| None).unwrap())
}

/// What a call costs.
async fn cost(model: &dyn Model, latency: Latency) -> String {
    let (entries, ledger) = (entries(), Ledger::default());
    let request = Request {
        entries: &entries,
        max_output_tokens: 10,
        latency,
        ledger: Some(&ledger),
        ..Request::default()
    };
    houston_llm::call(model, &request).await.unwrap();
    let [used] = ledger.take().try_into().unwrap();
    let call = used.call(1, "2026-11-22T12:00:00Z".parse().unwrap());
    assert_eq!(call.usage.tier, None, "it is priced");
    call.usage.cost.unwrap().to_string()
}

/// Answers with the tier that was asked for.
fn responses(connection: &mut Connection, body: &Value) {
    let tier = body.get("service_tier").cloned().unwrap_or_else(|| json!("default"));
    connection.begin();
    let done = json!({"type": "response.completed", "response": {"status": "completed", "service_tier": tier,
        "usage": {"input_tokens": 1_000_000, "output_tokens": 0},
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]}});
    connection.send(&format!("{}0\r\n\r\n", chunk(&done.to_string())));
}

#[tokio::test]
async fn call_costs_what_its_tier_costs() {
    let (base, seen) = serve(responses);
    let model = model(&base, "openai", "gpt-5.5");
    let (usual, relaxed) = (cost(&*model, Latency::Interactive).await, cost(&*model, Latency::Relaxed).await);
    let fast = cost(&*model, Latency::Fast).await;
    assert_eq!((&*usual, &*relaxed), ("10", "5"));
    assert!(fast.parse::<f64>().unwrap() > 10.0, "{fast}");
    let tiers: Vec<Value> = seen.lock().unwrap().iter().map(|body| body["service_tier"].clone()).collect();
    assert_eq!(tiers, [Value::Null, json!("flex"), json!("priority")]);
}

#[tokio::test]
async fn tier_without_room_is_replaced_by_the_usual_one() {
    let (base, seen) = serve(|connection, body| {
        if body.get("service_tier").is_none() {
            return responses(connection, body);
        }
        let error = json!({"error": {"message": "Resource unavailable. Please try again later.",
            "type": "resource_unavailable", "code": "resource_unavailable"}});
        connection.answer("429 Too Many Requests", "content-type: application/json\r\n", &error.to_string());
    });
    let model = model(&base, "openai", "gpt-5.5");
    // It is asked for again the next time: it may have room then.
    for sent in [2, 4] {
        assert_eq!(cost(&*model, Latency::Relaxed).await, "10");
        assert_eq!(seen.lock().unwrap().len(), sent);
    }
}

#[tokio::test]
async fn rate_limit_of_a_cheap_tier_stays_a_rate_limit() {
    let (base, seen) = serve(|connection, _| {
        let error =
            json!({"error": {"message": "Rate limit reached for requests", "code": "rate_limit_exceeded"}});
        connection.answer("429 Too Many Requests", "content-type: application/json\r\n", &error.to_string());
    });
    let (model, entries) = (model(&base, "openai", "gpt-5.5"), entries());
    let request =
        Request { entries: &entries, max_output_tokens: 10, latency: Latency::Relaxed, ..Request::default() };
    let error = houston_llm::call(&*model, &request).await.unwrap_err();
    assert_eq!((error.status, seen.lock().unwrap().len()), (Some(429), 1));
}

#[tokio::test]
async fn refused_tier_and_lifetime_are_left_out_for_good() {
    let (base, seen) = serve(|connection, body| {
        let refuse = |connection: &mut Connection, message: &str, param: &str| {
            let error = json!({"error": {"message": message, "param": param}});
            connection.answer("400 Bad Request", "content-type: application/json\r\n", &error.to_string());
        };
        if body.get("service_tier").is_some() {
            return refuse(connection, "Invalid service_tier argument", "service_tier");
        }
        if body["prompt_cache_options"].get("ttl").is_some() {
            return refuse(
                connection,
                "Invalid value: '12h'. Supported values are: '30m'.",
                "prompt_cache_options.ttl",
            );
        }
        responses(connection, body);
    });
    let (model, entries) = (model(&base, "openai", "gpt-6-sol"), entries());
    let request = Request {
        entries: &entries,
        max_output_tokens: 10,
        latency: Latency::Relaxed,
        cache: CachePolicy::Long,
        cache_key: Some("key"),
        ..Request::default()
    };
    for sent in [3, 4] {
        assert_eq!(houston_llm::call(&*model, &request).await.unwrap().text, "hi");
        assert_eq!(seen.lock().unwrap().len(), sent);
    }
}

#[tokio::test]
async fn tier_of_gemini_is_read_from_the_header_or_assumed() {
    fn gemini(connection: &mut Connection, headers: &str) {
        let body = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 100_000, "candidatesTokenCount": 0}});
        connection.answer(
            "200 OK",
            &format!("content-type: application/json\r\n{headers}"),
            &body.to_string(),
        );
    }
    let name = "gemini-3.1-pro-preview";
    let (base, _) = serve(|connection, _| gemini(connection, ""));
    let model_without = model(&base, "google", name);
    let usual = cost(&*model_without, Latency::Interactive).await.parse::<f64>().unwrap();
    let relaxed = cost(&*model_without, Latency::Relaxed).await.parse::<f64>().unwrap();
    let (base, seen) = serve(|connection, _| gemini(connection, "x-gemini-service-tier: standard\r\n"));
    let said = cost(&*model(&base, "google", name), Latency::Relaxed).await.parse::<f64>().unwrap();
    assert!((relaxed * 2.0 - usual).abs() < 1e-9 && (said - usual).abs() < 1e-9, "{usual} {relaxed} {said}");
    assert_eq!(seen.lock().unwrap()[0]["serviceTier"], "flex");
}
