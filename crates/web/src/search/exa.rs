//! Exa: <https://exa.ai/docs/reference/search>, and `exa-openapi-spec.yaml` of
//! <https://github.com/exa-labs/openapi-spec> (April 2026).
//!
//! `POST /search` with `x-api-key`. `numResults` is 1 to 100, dates are absolute, the domain lists are filters, and
//! `contents.highlights` gives snippets. There are no pages and no language.

use chrono::{Days, SecondsFormat};
use http::header::HeaderName;
use serde_json::{Value, json};

use super::{Found, Now, Query, SNIPPET_CHARACTERS, Search, exchange};
use crate::error::Failure;
use crate::request::Request;

const KEY: HeaderName = HeaderName::from_static("x-api-key");
const MOST: usize = 100;

/// Asks Exa.
pub(super) async fn ask(search: &Search, query: &Query) -> Result<Found, Failure> {
    let (count, skip) = query.window(search.provider.name(), MOST)?;
    let (body, ignored) = body(query, count, &search.now);
    let request = Request::post_json(format!("{}/search", search.base), &body);
    exchange::ask(search, request, (KEY, ""), (query, skip), ignored).await
}

fn body(query: &Query, count: usize, now: &Now) -> (Value, Vec<String>) {
    let contents = json!({"highlights": {"maxCharacters": SNIPPET_CHARACTERS}});
    let mut body = json!({"query": query.query, "numResults": count, "type": "auto", "contents": contents});
    let mut ignored = Vec::new();
    if let Some(freshness) = query.freshness {
        let since = now().checked_sub_days(Days::new(freshness.days().into()));
        let since = since.map(|since| since.to_rfc3339_opts(SecondsFormat::Secs, true));
        body["startPublishedDate"] = json!(since);
    }
    if let Some(country) = &query.country {
        body["userLocation"] = json!(country);
    }
    if query.language.is_some() {
        ignored.push("language: Exa has no such filter; write the query in that language".to_owned());
    }
    for (name, domains) in
        [("includeDomains", &query.include_domains), ("excludeDomains", &query.exclude_domains)]
    {
        if !domains.is_empty() {
            body[name] = json!(domains);
        }
    }
    (body, ignored)
}
