//! SearXNG: <https://docs.searxng.org/dev/search_api.html>.
//!
//! `GET /search?format=json` on a server of the operator, so through a client for listed hosts. `pageno` counts from 1,
//! `time_range` is day, month or year. There is no count: a page has some twenty results. JSON is off by default (403).
//! Domains become `site:` terms, which most engines behind it follow.

use http::header::AUTHORIZATION;

use super::{Found, Freshness, Query, Search, domains, exchange};
use crate::error::Failure;

/// Asks a SearXNG server.
pub(super) async fn ask(search: &Search, query: &Query) -> Result<Found, Failure> {
    let (parameters, ignored) = parameters(query);
    let request = exchange::get(search, "/search", &parameters);
    exchange::ask(search, request, (AUTHORIZATION, "Bearer "), (query, 0), ignored).await
}

fn parameters(query: &Query) -> (Vec<(&'static str, String)>, Vec<String>) {
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
    (parameters, ignored)
}
