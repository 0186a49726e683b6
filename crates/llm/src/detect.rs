//! Finds out which providers can be used with the keys that are set.

use std::time::Duration;

use serde::Deserialize;

use crate::http::Http;
use crate::provider::{Choice, Lookup, PROVIDERS, Provider};

/// How long a local server may take to list its models. Enough for loopback, and too short to delay the start.
const OLLAMA_TIMEOUT: Duration = Duration::from_millis(150);

/// Longest response read, in bytes: more than any list of local models.
const LONGEST_LIST: usize = 1 << 20;

/// The providers that may replace each other without being configured to, in this order.
pub const FALLBACK_ORDER: [&str; 5] = ["anthropic", "openai", "google", "deepseek", "groq"];

/// Chooses models: the default models of the providers in [`FALLBACK_ORDER`] whose keys are set; otherwise the first
/// other provider whose key is set, in the order of [`PROVIDERS`]; otherwise the first model of an Ollama that
/// answers within 150 ms at `OLLAMA_BASE_URL` (or its usual address); otherwise the simulated model. Never empty.
///
/// A provider outside of [`FALLBACK_ORDER`] never becomes a fallback of another: having its key does not mean its
/// owner may receive other providers' conversations.
pub async fn detect_all(http: &Http, lookup: Lookup<'_>) -> Vec<Choice> {
    let keyed = || {
        PROVIDERS
            .iter()
            .filter(|row| row.found_by_key && row.needs_key && Choice::new(row.name, "").has_key(lookup))
    };
    let choice = |row: &Provider| Choice::new(row.name, row.default_model);
    let named = |name: &&str| keyed().find(|row| row.name == *name).map(choice);
    let known: Vec<Choice> = FALLBACK_ORDER.iter().filter_map(named).collect();
    if !known.is_empty() {
        return known;
    }
    if let Some(row) = keyed().next() {
        return vec![choice(row)];
    }
    for row in PROVIDERS.iter().filter(|row| row.name == "ollama") {
        let base = row.url_variable(lookup);
        let found = first_model(http, base.as_deref().unwrap_or(row.base_url));
        if let Ok(Some(model)) = tokio::time::timeout(OLLAMA_TIMEOUT, found).await {
            return vec![Choice::new(row.name, model)];
        }
    }
    vec![Choice::new("simulated", "simulated")]
}

/// The first model listed by the Ollama at `base`.
async fn first_model(http: &Http, base: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Tags {
        models: Vec<Tag>,
    }
    #[derive(Deserialize)]
    struct Tag {
        name: String,
    }
    let mut url = reqwest::Url::parse(base).ok()?;
    url.set_path("/api/tags");
    let mut response = http.client.get(url).send().await.ok()?.error_for_status().ok()?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_LIST {
            return None;
        }
    }
    let tags: Tags = serde_json::from_slice(&body).ok()?;
    tags.models.into_iter().next().map(|tag| tag.name)
}
