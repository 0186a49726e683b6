//! SearXNG: <https://docs.searxng.org/dev/search_api.html>.
//!
//! `GET /search?format=json` on a server of the operator, so through a client for listed hosts. `pageno` counts from 1,
//! `time_range` is day, month or year. There is no count: a page has some twenty results. JSON is off by default (403).
//! Domains become `site:` terms, which most engines behind it follow.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use serde::Deserialize;

use super::exchange::{self, Parameters};
use super::{Found, Freshness, Key, Query, SearchError, SearchProvider, domains};
use crate::client::Client;
use crate::request::Request;

const NAME: &str = "SearXNG";

/// A SearXNG server.
pub struct Searxng {
    client: Client,
    base: String,
    /// A bearer token, if a proxy in front of the server wants one.
    key: Option<Key>,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    title: Option<String>,
    url: String,
    content: Option<String>,
    #[serde(rename = "publishedDate")]
    published: Option<String>,
    score: Option<f64>,
}

impl Searxng {
    /// Searches through a client on a server at a base address, with or without a path.
    #[must_use]
    pub fn new(client: Client, base: &str, key: Option<Key>) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), key }
    }

    async fn ask(&self, query: &Query) -> Result<Found, SearchError> {
        let Parameters { parameters, ignored } = parameters(query);
        let line = exchange::query_line(&parameters);
        let request = Request::get(format!("{}/search?{line}", self.base));
        let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
        let request = match &self.key {
            Some(key) => request.secret(AUTHORIZATION, "Bearer ", key),
            None => Ok(request),
        };
        let answer = exchange::json::<Answer>(NAME, &self.client, request, self.key.as_ref()).await;
        let answer = answer.map_err(|error| match error {
            SearchError::Key { status: 403, .. } => SearchError::JsonIsOff,
            error => error,
        })?;
        let hits = answer
            .results
            .into_iter()
            .map(|page| exchange::hit(page.title, page.url, page.content, page.published, page.score));
        Ok(exchange::found(query, hits, 0, ignored))
    }
}

fn parameters(query: &Query) -> Parameters {
    let mut parameters = vec![
        ("q", domains::with_terms(query)),
        ("format", "json".to_owned()),
        ("pageno", query.page.to_string()),
    ];
    let mut ignored = Vec::new();
    if let Some(freshness) = query.freshness {
        let range = match freshness {
            Freshness::Week => {
                ignored.push("freshness: SearXNG has no week; these are results of a month".to_owned());
                Freshness::Month
            }
            freshness => freshness,
        };
        parameters.push(("time_range", range.text().to_owned()));
    }
    match (&query.language, &query.country) {
        (Some(language), Some(country)) if !language.contains('-') => {
            parameters.push(("language", format!("{}-{country}", language.to_ascii_lowercase())));
        }
        (Some(language), _) => parameters.push(("language", language.clone())),
        (None, Some(_)) => ignored.push("country: SearXNG needs a language with it".to_owned()),
        (None, None) => {}
    }
    Parameters { parameters, ignored }
}

impl SearchProvider for Searxng {
    fn name(&self) -> &'static str {
        NAME
    }

    fn search<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>> {
        self.ask(query).boxed()
    }
}
