//! Exa: <https://exa.ai/docs/reference/search>, and `exa-openapi-spec.yaml` of
//! <https://github.com/exa-labs/openapi-spec> (April 2026).
//!
//! `POST /search` with `x-api-key`. `numResults` is 1 to 100, dates are absolute, the domain lists are filters, and
//! `contents.highlights` gives snippets. There are no pages and no language.

use chrono::{Days, SecondsFormat};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::HeaderName;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Found, Key, Now, Query, SNIPPET_CHARACTERS, SearchError, SearchProvider, exchange};
use crate::client::Client;
use crate::request::Request;

const NAME: &str = "Exa";
const KEY: HeaderName = HeaderName::from_static("x-api-key");
const MOST: usize = 100;

/// An account at Exa.
pub struct Exa {
    client: Client,
    base: String,
    key: Key,
    now: Now,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Page>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    title: Option<String>,
    url: String,
    highlights: Option<Vec<String>>,
    published_date: Option<String>,
    score: Option<f64>,
}

impl Exa {
    /// The address of the service.
    pub const BASE: &'static str = "https://api.exa.ai";

    /// Searches through a client at an address without path, usually [`Exa::BASE`]. `now` gives the time from which
    /// the age of pages is counted.
    #[must_use]
    pub fn new(client: Client, base: &str, key: Key, now: Now) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), key, now }
    }

    async fn ask(&self, query: &Query) -> Result<Found, SearchError> {
        let (count, skip) = query.window(NAME, MOST)?;
        let (body, ignored) = self.body(query, count);
        let request = Request::post_json(format!("{}/search", self.base), &body);
        let request = request.secret(KEY, "", &self.key);
        let answer: Answer = exchange::json(NAME, &self.client, request, Some(&self.key)).await?;
        let hits = answer.results.into_iter().map(|page| {
            let snippet = page.highlights.map(|highlights| highlights.join(" … "));
            exchange::hit(page.title, page.url, snippet, page.published_date, page.score)
        });
        Ok(exchange::found(query, hits, skip, ignored))
    }

    fn body(&self, query: &Query, count: usize) -> (Value, Vec<String>) {
        let mut body = Map::from_iter([
            ("query".to_owned(), json!(query.query)),
            ("numResults".to_owned(), json!(count)),
            ("type".to_owned(), json!("auto")),
            ("contents".to_owned(), json!({"highlights": {"maxCharacters": SNIPPET_CHARACTERS}})),
        ]);
        let mut ignored = Vec::new();
        if let Some(freshness) = query.freshness {
            let since = (self.now)().checked_sub_days(Days::new(freshness.days().into()));
            let since = since.map(|since| since.to_rfc3339_opts(SecondsFormat::Secs, true));
            body.insert("startPublishedDate".to_owned(), json!(since));
        }
        if let Some(country) = &query.country {
            body.insert("userLocation".to_owned(), json!(country));
        }
        if query.language.is_some() {
            ignored.push("language: Exa has no such filter; write the query in that language".to_owned());
        }
        for (name, domains) in
            [("includeDomains", &query.include_domains), ("excludeDomains", &query.exclude_domains)]
        {
            if !domains.is_empty() {
                body.insert(name.to_owned(), json!(domains));
            }
        }
        (body.into(), ignored)
    }
}

impl SearchProvider for Exa {
    fn name(&self) -> &'static str {
        NAME
    }

    fn search<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>> {
        self.ask(query).boxed()
    }
}
