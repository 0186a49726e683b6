//! Which provider is chosen when none is configured.

use std::time::{Duration, Instant};

use houston_llm::{Choice, Http, Timeouts, detect_all};

use crate::caller::http;
use crate::server::server;

/// The first choice.
async fn detect(http: &Http, lookup: &(dyn Fn(&str) -> Option<String> + Send + Sync)) -> Choice {
    detect_all(http, lookup).await.swap_remove(0)
}

#[tokio::test]
async fn detection_prefers_keys_then_ollama_then_simulated() {
    let http = http(Timeouts::default());
    let (base, requests) = server(|mut connection| {
        connection.answer(
            "200 OK",
            "content-type: application/json\r\n",
            r#"{"models":[{"name":"qwen3:8b"},{"name":"x"}]}"#,
        );
        connection.request
    });
    let with = |keys: &'static [&'static str], ollama: &str| {
        let ollama = ollama.to_owned();
        move |name: &str| match name {
            "OLLAMA_BASE_URL" => Some(ollama.clone()),
            name => keys.contains(&name).then(|| "key".to_owned()),
        }
    };
    let keys = with(&["XAI_API_KEY", "GROQ_API_KEY"], &base);
    assert_eq!(detect(&http, &keys).await.provider, "groq");
    let keys = with(&["OPENAI_API_KEY", "ANTHROPIC_API_KEY"], &base);
    assert_eq!(detect(&http, &keys).await.provider, "anthropic");
    let all = |keys: Vec<Choice>| keys.into_iter().map(|choice| choice.provider).collect::<Vec<_>>();
    // Only providers of the fallback order replace each other; a key of another provider is ignored here.
    let keys = with(
        &["XAI_API_KEY", "GROQ_API_KEY", "DEEPSEEK_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"],
        &base,
    );
    assert_eq!(all(detect_all(&http, &keys).await), ["anthropic", "openai", "deepseek", "groq"]);
    let keys = with(&["XAI_API_KEY", "OPENROUTER_API_KEY"], &base);
    assert_eq!(all(detect_all(&http, &keys).await), ["openrouter"]);

    // On a busy machine it may answer too late.
    let end = Instant::now() + Duration::from_secs(120);
    let ollama = with(&[], &base);
    let mut found = detect(&http, &ollama).await.to_string();
    while found == "simulated/simulated" && Instant::now() < end {
        found = detect(&http, &ollama).await.to_string();
    }
    assert_eq!(found, "ollama/qwen3:8b");
    assert!(requests.recv().unwrap().starts_with("GET /api/tags "));

    let (empty, _requests) = server(|mut connection| connection.answer("200 OK", "", r#"{"models":[]}"#));
    assert_eq!(detect(&http, &with(&[], &empty)).await.to_string(), "simulated/simulated");

    let (silent, _requests) = server(|mut connection| connection.wait_for_close());
    let started = Instant::now();
    assert_eq!(detect(&http, &with(&[], &silent)).await.provider, "simulated");
    assert!(started.elapsed() < Duration::from_secs(30));
}
