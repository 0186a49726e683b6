//! Tavily: <https://docs.tavily.com/documentation/api-reference/endpoint/search>; errors and parameters also in
//! `tavily/tavily.py` of <https://github.com/tavily-ai/tavily-python> (June 2026).
//!
//! `POST /search` with a bearer token. `max_results` is 0 to 20, `time_range` is day, week, month or year, the domain
//! lists are filters. There are no pages and no language; `country` is an English name in small letters.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Found, Key, Query, SearchError, SearchProvider, exchange};
use crate::client::Client;
use crate::request::Request;

const NAME: &str = "Tavily";
const MOST: usize = 20;

/// Tavily's names of countries.
const COUNTRIES: [(&str, &str); 36] = [
    ("AR", "argentina"),
    ("AT", "austria"),
    ("AU", "australia"),
    ("BE", "belgium"),
    ("BR", "brazil"),
    ("CA", "canada"),
    ("CH", "switzerland"),
    ("CL", "chile"),
    ("CN", "china"),
    ("DE", "germany"),
    ("DK", "denmark"),
    ("ES", "spain"),
    ("FI", "finland"),
    ("FR", "france"),
    ("GB", "united kingdom"),
    ("ID", "indonesia"),
    ("IE", "ireland"),
    ("IN", "india"),
    ("IT", "italy"),
    ("JP", "japan"),
    ("KR", "south korea"),
    ("MX", "mexico"),
    ("MY", "malaysia"),
    ("NL", "netherlands"),
    ("NO", "norway"),
    ("NZ", "new zealand"),
    ("PH", "philippines"),
    ("PL", "poland"),
    ("PT", "portugal"),
    ("RU", "russia"),
    ("SA", "saudi arabia"),
    ("SE", "sweden"),
    ("TR", "turkey"),
    ("TW", "taiwan"),
    ("US", "united states"),
    ("ZA", "south africa"),
];

/// An account at Tavily.
pub struct Tavily {
    client: Client,
    base: String,
    key: Key,
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
    published_date: Option<String>,
    score: Option<f64>,
}

impl Tavily {
    /// The address of the service.
    pub const BASE: &'static str = "https://api.tavily.com";

    /// Searches through a client at an address without path, usually [`Tavily::BASE`].
    #[must_use]
    pub fn new(client: Client, base: &str, key: Key) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), key }
    }

    async fn ask(&self, query: &Query) -> Result<Found, SearchError> {
        let (count, skip) = query.window(NAME, MOST)?;
        let (body, ignored) = body(query, count);
        let request = Request::post_json(format!("{}/search", self.base), &body);
        let request = request.secret(AUTHORIZATION, "Bearer ", &self.key);
        let answer: Answer = exchange::json(NAME, &self.client, request, Some(&self.key)).await?;
        let hits = answer
            .results
            .into_iter()
            .map(|page| exchange::hit(page.title, page.url, page.content, page.published_date, page.score));
        Ok(exchange::found(query, hits, skip, ignored))
    }
}

fn body(query: &Query, count: usize) -> (Value, Vec<String>) {
    let mut body = Map::from_iter([
        ("query".to_owned(), json!(query.query)),
        ("max_results".to_owned(), json!(count)),
        ("search_depth".to_owned(), json!("basic")),
        ("topic".to_owned(), json!("general")),
    ]);
    let mut ignored = Vec::new();
    if let Some(freshness) = query.freshness {
        body.insert("time_range".to_owned(), json!(freshness.text()));
    }
    if let Some(country) = &query.country {
        match COUNTRIES.iter().find(|(code, _)| code == country) {
            Some((_, name)) => _ = body.insert("country".to_owned(), json!(name)),
            None => ignored.push(format!("country: Tavily's name of `{country}` is not listed")),
        }
    }
    if query.language.is_some() {
        ignored.push("language: Tavily has no such filter; write the query in that language".to_owned());
    }
    for (name, domains) in
        [("include_domains", &query.include_domains), ("exclude_domains", &query.exclude_domains)]
    {
        if !domains.is_empty() {
            body.insert(name.to_owned(), json!(domains));
        }
    }
    (body.into(), ignored)
}

impl SearchProvider for Tavily {
    fn name(&self) -> &'static str {
        NAME
    }

    fn search<'a>(&'a self, query: &'a Query) -> BoxFuture<'a, Result<Found, SearchError>> {
        self.ask(query).boxed()
    }
}
