//! Web search: one question, several providers.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use serde::Serialize;

use crate::error::{Fault, WebError};

mod brave;
mod domains;
mod exa;
mod exchange;
mod query;
mod searxng;
mod tavily;

pub use brave::Brave;
pub use exa::Exa;
pub use query::{Freshness, Query};
pub use searxng::Searxng;
pub use tavily::Tavily;

/// Searches the web with one provider and one account there.
pub trait SearchProvider: Send + Sync {
    /// The provider's name, as its documentation spells it.
    fn name(&self) -> &'static str;

    /// Asks one question. A question has passed [`Query::check`].
    fn search<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>>;
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

/// Why a search failed. No text contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The question is not valid, or not for this provider.
    #[error("{0}")]
    Query(String),
    /// The key is wrong or has no right to search.
    #[error("{provider} rejected the API key (HTTP {status}): a valid one must be set in this installation")]
    Key {
        /// The provider's name.
        provider: &'static str,
        /// The status of the answer.
        status: u16,
    },
    /// What was paid for is used up.
    #[error("the plan at {provider} is used up (HTTP {status}): it must be extended there")]
    UsedUp {
        /// The provider's name.
        provider: &'static str,
        /// The status of the answer.
        status: u16,
    },
    /// Too many requests.
    #[error("{provider} allows no more searches at the moment{}", wait(.retry_after))]
    RateLimited {
        /// The provider's name.
        provider: &'static str,
        /// How long to wait, if the provider says so.
        retry_after: Option<Duration>,
    },
    /// SearXNG does not answer in JSON.
    #[error(
        "the SearXNG server does not allow JSON: its operator must add `json` to `search.formats` in settings.yml"
    )]
    JsonIsOff,
    /// The provider did not understand the question.
    #[error("{provider} rejected the search (HTTP {status}): {message}")]
    Rejected {
        /// The provider's name.
        provider: &'static str,
        /// The status of the answer.
        status: u16,
        /// The beginning of the answer, without the key.
        message: String,
    },
    /// The provider failed.
    #[error("{provider} failed (HTTP {status}): try again later")]
    Failed {
        /// The provider's name.
        provider: &'static str,
        /// The status of the answer.
        status: u16,
    },
    /// The answer is not what the documentation describes.
    #[error("{provider} sent an answer that cannot be read: {reason}")]
    Unreadable {
        /// The provider's name.
        provider: &'static str,
        /// Where and what, without content.
        reason: String,
    },
    /// No answer.
    #[error("{provider}: {error}")]
    Web {
        /// The provider's name.
        provider: &'static str,
        /// Why there is none.
        error: WebError,
    },
}

impl SearchError {
    /// What the failure means to a tool.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Query(_) | Self::Rejected { .. } => Fault::Invalid,
            Self::Key { .. } | Self::UsedUp { .. } | Self::JsonIsOff => Fault::Config,
            Self::RateLimited { .. } => Fault::RateLimited,
            Self::Failed { .. } | Self::Unreadable { .. } => Fault::Io,
            Self::Web { error, .. } => match error.fault() {
                // The address of a provider is a setting, not an argument of the search.
                Fault::Forbidden | Fault::Invalid | Fault::NotFound => Fault::Config,
                fault => fault,
            },
        }
    }
}

fn wait(retry_after: &Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!(": try again in {} s", wait.as_secs()))
}
