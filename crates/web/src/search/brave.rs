//! Brave Search: <https://api-dashboard.search.brave.com/documentation>; parameters also in `src/tools/web/params.ts` of
//! <https://github.com/brave/brave-search-mcp-server> (July 2025).
//!
//! `GET /res/v1/web/search` with `X-Subscription-Token`. `count` is 1 to 20, `offset` counts pages from 0 to 9,
//! `freshness` is pd, pw, pm or py; only some countries and languages are allowed. Domains become `site:` terms.

use http::header::HeaderName;
use serde::Deserialize;

use super::{Found, Freshness, Query, Search, domains, exchange};
use crate::error::Failure;

const TOKEN: HeaderName = HeaderName::from_static("x-subscription-token");

const COUNTRIES: [&str; 36] = [
    "AR", "AT", "AU", "BE", "BR", "CA", "CH", "CL", "CN", "DE", "DK", "ES", "FI", "FR", "GB", "HK", "ID",
    "IN", "IT", "JP", "KR", "MX", "MY", "NL", "NO", "NZ", "PH", "PL", "PT", "RU", "SA", "SE", "TR", "TW",
    "US", "ZA",
];

/// Languages without a region. Japanese is `jp` there; Chinese and Portuguese need a variant.
const LANGUAGES: [&str; 46] = [
    "ar", "bg", "bn", "ca", "cs", "da", "de", "en", "es", "et", "eu", "fi", "fr", "gl", "gu", "he", "hi",
    "hr", "hu", "is", "it", "jp", "kn", "ko", "lt", "lv", "ml", "mr", "ms", "nb", "nl", "pa", "pl", "ro",
    "ru", "sk", "sl", "sr", "sv", "ta", "te", "th", "tr", "uk", "vi", "en-gb",
];

#[derive(Deserialize)]
struct Answer {
    /// Absent when nothing was found.
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    title: Option<String>,
    url: String,
    description: Option<String>,
    page_age: Option<String>,
    age: Option<String>,
}

/// Asks Brave.
pub(super) async fn ask(search: &Search, query: &Query) -> Result<Found, Failure> {
    let (parameters, ignored) = parameters(query);
    let request = exchange::get(search, "/res/v1/web/search", &parameters);
    let answer: Answer = exchange::json(search, request, TOKEN, "").await?;
    let pages = answer.web.map(|web| web.results).unwrap_or_default();
    let hits = pages
        .into_iter()
        .map(|page| exchange::hit(page.title, page.url, page.description, page.page_age.or(page.age), None));
    Ok(exchange::found(query, hits, 0, ignored))
}

fn parameters(query: &Query) -> (Vec<(&'static str, String)>, Vec<String>) {
    let mut parameters = vec![
        ("q", domains::with_terms(query)),
        ("count", query.count.to_string()),
        ("offset", (query.page - 1).to_string()),
        ("result_filter", "web".to_owned()),
        ("text_decorations", "false".to_owned()),
    ];
    let mut ignored = Vec::new();
    if let Some(freshness) = query.freshness {
        let window = match freshness {
            Freshness::Day => "pd",
            Freshness::Week => "pw",
            Freshness::Month => "pm",
            Freshness::Year => "py",
        };
        parameters.push(("freshness", window.to_owned()));
    }
    match &query.country {
        Some(country) if COUNTRIES.contains(&country.as_str()) => {
            parameters.push(("country", country.clone()))
        }
        Some(country) => ignored.push(format!("country: Brave does not support `{country}`")),
        None => {}
    }
    if let Some(plain) = query.plain_language() {
        let full = query.language.as_deref().unwrap_or_default().to_ascii_lowercase();
        match language(&full, &plain) {
            Some(language) => parameters.push(("search_lang", language.to_owned())),
            None => ignored.push(format!("language: Brave does not support `{full}`")),
        }
    }
    (parameters, ignored)
}

/// Brave's name of a language.
fn language(full: &str, plain: &str) -> Option<&'static str> {
    match (full, plain) {
        ("pt-pt", _) => Some("pt-pt"),
        ("zh-tw" | "zh-hk" | "zh-hant", _) => Some("zh-hant"),
        (_, "pt") => Some("pt-br"),
        (_, "zh") => Some("zh-hans"),
        (_, "ja") => Some("jp"),
        (_, "no" | "nn") => Some("nb"),
        _ => {
            let listed = |text: &str| LANGUAGES.into_iter().find(|language| *language == text);
            listed(full).or_else(|| listed(plain))
        }
    }
}
