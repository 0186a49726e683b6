//! Tavily: <https://docs.tavily.com/documentation/api-reference/endpoint/search>; errors and parameters also in
//! `tavily/tavily.py` of <https://github.com/tavily-ai/tavily-python> (June 2026).
//!
//! `POST /search` with a bearer token. `max_results` is 0 to 20, `time_range` is day, week, month or year, the domain
//! lists are filters. There are no pages and no language; `country` is an English name in small letters.

use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{Found, Query, Search, exchange};
use crate::error::Failure;
use crate::request::Request;

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

/// Asks Tavily.
pub(super) async fn ask(search: &Search, query: &Query) -> Result<Found, Failure> {
    let (count, skip) = query.window(search.provider.name(), MOST)?;
    let (body, ignored) = body(query, count);
    let request = Request::post_json(format!("{}/search", search.base), &body);
    exchange::ask(search, request, (AUTHORIZATION, "Bearer "), (query, skip), ignored).await
}

fn body(query: &Query, count: usize) -> (Value, Vec<String>) {
    let mut body = json!({
        "query": query.query, "max_results": count, "search_depth": "basic", "topic": "general",
    });
    let mut ignored = Vec::new();
    if let Some(freshness) = query.freshness {
        body["time_range"] = json!(freshness.text());
    }
    if let Some(country) = &query.country {
        match COUNTRIES.iter().find(|(code, _)| code == country) {
            Some((_, name)) => body["country"] = json!(name),
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
            body[name] = json!(domains);
        }
    }
    (body, ignored)
}
