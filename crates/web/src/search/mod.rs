//! Web search: one question, several providers.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Failure;

mod brave;
mod domains;
mod exa;
mod exchange;
mod query;
mod searxng;
mod tavily;

pub use query::{Freshness, Query};

/// The search providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// tavily.com.
    Tavily,
    /// Brave Search.
    Brave,
    /// exa.ai.
    Exa,
    /// A SearXNG server of the operator's own.
    Searxng,
}

impl Provider {
    /// Its name, as its documentation spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tavily => "Tavily",
            Self::Brave => "Brave Search",
            Self::Exa => "Exa",
            Self::Searxng => "SearXNG",
        }
    }

    /// The environment variable with the key.
    pub fn key_variable(self) -> &'static str {
        match self {
            Self::Tavily => "TAVILY_API_KEY",
            Self::Brave => "BRAVE_API_KEY",
            Self::Exa => "EXA_API_KEY",
            Self::Searxng => "SEARXNG_API_KEY",
        }
    }

    /// Its address; `None`: that of the operator's own server.
    pub fn base(self) -> Option<&'static str> {
        match self {
            Self::Tavily => Some("https://api.tavily.com"),
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Exa => Some("https://api.exa.ai"),
            Self::Searxng => None,
        }
    }
}

/// Searches the web with one provider and one account there.
pub struct Search {
    provider: Provider,
    client: Client,
    base: String,
    key: Option<Key>,
    now: Now,
}

impl Search {
    /// Searches at `base`, which may end with a slash, through `client`, with the key of an account: only SearXNG may need none.
    pub fn new(provider: Provider, client: Client, base: &str, key: Option<Key>, now: Now) -> Self {
        Self { provider, client, base: base.trim_end_matches('/').to_owned(), key, now }
    }

    /// Who is asked.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Asks one question, which has passed [`Query::check`].
    ///
    /// # Errors
    /// [`Failure`]. No text contains the key.
    pub async fn ask(&self, query: &Query) -> Result<Found, Failure> {
        match self.provider {
            Provider::Tavily => tavily::ask(self, query).await,
            Provider::Brave => brave::ask(self, query).await,
            Provider::Exa => exa::ask(self, query).await,
            Provider::Searxng => searxng::ask(self, query).await,
        }
    }
}

/// The key of an account.
pub type Key = SecretString;

/// The time: an argument, so that tests can set it.
pub type Now = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// What a search found. Everything in it is written by others.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Found {
    /// At most as many as were asked for, the best first.
    pub results: Vec<Hit>,
    /// Parts of the question that the provider cannot answer, in words for a model: `freshness: …`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// One page that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// The page's title; may be empty.
    pub title: String,
    /// An http or https URL.
    pub url: String,
    /// Text of the page, or about it, at most [`SNIPPET_CHARACTERS`]; may be empty.
    pub snippet: String,
    /// When the page was published, in the provider's words: often `2026-11-20` or a time of RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// How well the page fits, by the provider's own measure: comparable within one answer only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// The most characters of a snippet; Tavily and SearXNG send more.
pub const SNIPPET_CHARACTERS: usize = 1000;
