//! Which provider can be used as things are.

use std::time::Duration;

use serde::Deserialize;

use crate::http::Http;
use crate::provider::{Choice, Lookup, PROVIDERS};

/// How long a local server may take to say what it has. Long enough for loopback, and nobody waits for it.
const PATIENCE: Duration = Duration::from_millis(150);

/// More than any list of local models.
const LONGEST_LIST: usize = 1 << 20;

/// Chooses: the first provider whose key is set, in the order of [`PROVIDERS`]; else the first model of an
/// Ollama that answers at `OLLAMA_BASE_URL` (or where it usually is) within 150 ms; else the simulated one.
pub async fn detect(http: &Http, lookup: Lookup<'_>) -> Choice {
    for row in PROVIDERS {
        if row.found_by_key && row.needs_key && Choice::new(row.name, "").has_key(lookup) {
            return Choice::new(row.name, row.default_model);
        }
    }
    for row in PROVIDERS.iter().filter(|row| row.name == "ollama") {
        let base = row.url_variable(lookup);
        let found = first_model(http, base.as_deref().unwrap_or(row.base_url));
        if let Ok(Some(model)) = tokio::time::timeout(PATIENCE, found).await {
            return Choice::new(row.name, model);
        }
    }
    Choice::new("simulated", "simulated")
}

/// The first model that the Ollama at `base` has.
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
