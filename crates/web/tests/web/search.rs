//! What each search provider is asked, and what becomes of its answers, as their documentation describes them.

use std::sync::Arc;

use chrono::{TimeZone as _, Utc};
use houston_web::search::{Found, Freshness, Key, Provider, Query, Search};
use houston_web::{Client, Failure};
use serde_json::{Value, json};
use url::Url;

use crate::network::{Network, Step, answer, header, path};

pub(crate) const BASE: &str = "http://provider.internal";
pub(crate) const KEY: &str = "key-0123456789";

/// The providers, each at the same fake server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Tavily,
    Brave,
    Searxng,
    Exa,
}

pub(crate) const ALL: [Which; 4] = [Which::Tavily, Which::Brave, Which::Searxng, Which::Exa];

impl Which {
    pub(crate) fn at(self, client: Client) -> Search {
        let now = Arc::new(|| Utc.with_ymd_and_hms(2026, 11, 23, 12, 0, 0).unwrap());
        let provider = match self {
            Self::Tavily => Provider::Tavily,
            Self::Brave => Provider::Brave,
            Self::Searxng => Provider::Searxng,
            Self::Exa => Provider::Exa,
        };
        Search::new(provider, client, BASE, Some(Key::from(KEY)), now)
    }

    /// An answer with pages, in the provider's form.
    pub(crate) fn answer(self, urls: &[&str]) -> Value {
        let page = |url: &&str| match self {
            Self::Tavily => {
                json!({"title": "T", "url": url, "content": "long\n text", "score": 0.9, "raw_content": null})
            }
            Self::Brave => {
                json!({"type": "search_result", "title": "T", "url": url, "description": "long\n text",
                "page_age": "2026-11-20T10:00:00", "age": "3 days ago", "family_friendly": true})
            }
            Self::Searxng => {
                json!({"title": "T", "url": url, "content": "long\n text", "engine": "x", "score": 1.5,
                "publishedDate": "2026-11-20T10:00:00", "category": "general"})
            }
            Self::Exa => json!({"id": url, "title": "T", "url": url, "highlights": ["long\n", "text"],
                "publishedDate": "2026-11-20T10:00:00.000Z", "author": null}),
        };
        let pages: Vec<Value> = urls.iter().map(page).collect();
        match self {
            Self::Brave => {
                json!({"type": "search", "query": {"original": "q"}, "web": {"type": "search", "results": pages}})
            }
            Self::Searxng => {
                json!({"query": "q", "number_of_results": 0, "results": pages, "answers": [], "suggestions": []})
            }
            Self::Tavily => {
                json!({"query": "q", "answer": null, "images": [], "results": pages, "response_time": 1.2})
            }
            Self::Exa => {
                json!({"requestId": "r", "results": pages, "searchType": "auto", "costDollars": {"total": 0.005}})
            }
        }
    }
}

/// Asks a provider; what the server received, and the result.
pub(crate) async fn ask(
    which: Which,
    query: Query,
    handler: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static,
) -> (Vec<String>, Result<Found, Failure>) {
    let (client, network) = Network::new(handler).name("provider.internal", &["10.0.0.9"]).listed(BASE);
    let found = which.at(client).ask(&query.check().unwrap()).await;
    (network.requests(), found)
}

/// The first request for a query.
async fn asked(which: Which, query: Query) -> String {
    let empty = which.answer(&[]).to_string();
    let (requests, found) = ask(which, query, move |_| answer(200, &[], &empty)).await;
    assert_eq!((requests.len(), found.unwrap().results.len()), (1, 0));
    requests.into_iter().next().unwrap()
}

fn full_query() -> Query {
    Query {
        count: 5,
        page: 2,
        freshness: Some(Freshness::Week),
        country: Some("de".to_owned()),
        language: Some("de".to_owned()),
        include_domains: vec!["a.com".to_owned(), "B.org".to_owned()],
        exclude_domains: vec!["c.net".to_owned()],
        ..Query::new("rust & \"async\"")
    }
}

/// The body of a request.
fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\n\n").unwrap().1).unwrap()
}

/// The query parameters of a GET request. Heads of requests are in small letters.
fn parameters(request: &str) -> Vec<(String, String)> {
    let url = Url::parse(BASE).unwrap().join(path(request)).unwrap();
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn tavily_is_asked_as_documented() {
    let request = asked(Which::Tavily, full_query()).await;
    assert!(request.starts_with("post /search http/1.1\n"), "{request}");
    assert_eq!(header(&request, "authorization"), format!("bearer {KEY}"));
    assert_eq!(header(&request, "content-type"), "application/json");
    let expected = json!({
        "query": "rust & \"async\"", "max_results": 10, "search_depth": "basic", "topic": "general",
        "time_range": "week", "country": "germany", "include_domains": ["a.com", "b.org"], "exclude_domains": ["c.net"],
    });
    assert_eq!(body(&request), expected);
}

#[tokio::test]
async fn brave_is_asked_as_documented() {
    let request = asked(Which::Brave, full_query()).await;
    assert!(request.starts_with("get /res/v1/web/search?"), "{request}");
    assert_eq!(header(&request, "x-subscription-token"), KEY);
    assert_eq!(header(&request, "accept"), "application/json");
    let expected = pairs(&[
        ("q", "rust & \"async\" (site:a.com or site:b.org) -site:c.net"),
        ("count", "5"),
        ("offset", "1"),
        ("result_filter", "web"),
        ("text_decorations", "false"),
        ("freshness", "pw"),
        ("country", "de"),
        ("search_lang", "de"),
    ]);
    assert_eq!(parameters(&request), expected);
}

#[tokio::test]
async fn searxng_is_asked_as_documented() {
    let request = asked(Which::Searxng, full_query()).await;
    assert!(request.starts_with("get /search?"), "{request}");
    assert_eq!(header(&request, "authorization"), format!("bearer {KEY}"));
    let expected = pairs(&[
        ("q", "rust & \"async\" (site:a.com or site:b.org) -site:c.net"),
        ("format", "json"),
        ("pageno", "2"),
        ("time_range", "month"),
        ("language", "de-de"),
    ]);
    assert_eq!(parameters(&request), expected);
}

#[tokio::test]
async fn exa_is_asked_as_documented() {
    let request = asked(Which::Exa, full_query()).await;
    assert!(request.starts_with("post /search http/1.1\n"), "{request}");
    assert_eq!(header(&request, "x-api-key"), KEY);
    let expected = json!({
        "query": "rust & \"async\"", "numResults": 10, "type": "auto",
        "contents": {"highlights": {"maxCharacters": 1000}}, "startPublishedDate": "2026-11-16T12:00:00Z",
        "userLocation": "DE", "includeDomains": ["a.com", "b.org"], "excludeDomains": ["c.net"],
    });
    assert_eq!(body(&request), expected);
}

#[tokio::test]
async fn a_plain_query_has_no_filters() {
    for which in ALL {
        let request = asked(which, Query::new("rust")).await;
        for name in ["freshness", "time_range", "country", "lang", "domain", "site", "published", "location"]
        {
            assert!(!request.contains(name), "{which:?}: {request}");
        }
    }
}

#[tokio::test]
async fn answers_become_results() {
    for which in ALL {
        let text = which.answer(&["https://a.com/1", "http://b.com/2", "javascript:alert(1)"]).to_string();
        let (_, found) = ask(which, Query::new("q"), move |_| answer(200, &[], &text)).await;
        let found = found.unwrap();
        let urls: Vec<&str> = found.results.iter().map(|hit| hit.url.as_str()).collect();
        assert_eq!(urls, ["https://a.com/1", "http://b.com/2"], "{which:?}");
        let first = &found.results[0];
        assert_eq!(first.title, "T", "{which:?}");
        assert!(
            ["long text", "long … text"].contains(&first.snippet.as_str()),
            "{which:?}: {}",
            first.snippet
        );
        assert_eq!(first.published.is_some(), which != Which::Tavily, "{which:?}");
        assert!(found.ignored.is_empty(), "{which:?}");
    }
}

#[tokio::test]
async fn no_more_results_than_asked_for_are_returned() {
    let urls: Vec<String> = (0..30).map(|page| format!("https://a.com/{page}")).collect();
    for which in ALL {
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let text = which.answer(&urls).to_string();
        let query = Query { count: 3, page: 2, ..Query::new("q") };
        let (_, found) = ask(which, query, move |_| answer(200, &[], &text)).await;
        let results = found.unwrap().results;
        // Without pages, the first page is cut off here; with pages, the server has done it.
        let first =
            if matches!(which, Which::Tavily | Which::Exa) { "https://a.com/3" } else { "https://a.com/0" };
        assert_eq!((results.len(), results[0].url.as_str()), (3, first), "{which:?}");
    }
}

#[tokio::test]
async fn results_of_excluded_domains_are_dropped() {
    for which in ALL {
        let text = which.answer(&["https://x.c.net/", "https://a.com/", "https://d.com/"]).to_string();
        let query = Query {
            include_domains: vec!["a.com".to_owned(), "c.net".to_owned()],
            exclude_domains: vec!["x.c.net".to_owned()],
            ..Query::new("q")
        };
        let (_, found) = ask(which, query, move |_| answer(200, &[], &text)).await;
        let results = found.unwrap().results;
        assert_eq!((results.len(), results[0].url.as_str()), (1, "https://a.com/"), "{which:?}");
    }
}

#[tokio::test]
async fn long_snippets_are_cut() {
    for which in ALL {
        let text = which.answer(&["https://a.com/"]).to_string().replace("long", &"ü".repeat(5000));
        let (_, found) = ask(which, Query::new("q"), move |_| answer(200, &[], &text)).await;
        assert_eq!(found.unwrap().results[0].snippet.chars().count(), 1000, "{which:?}");
    }
}

#[tokio::test]
async fn what_a_provider_cannot_do_is_said() {
    let query = || Query {
        freshness: Some(Freshness::Week),
        country: Some("xk".to_owned()),
        language: Some("sq".to_owned()),
        ..Query::new("q")
    };
    for (which, ignored) in [
        (Which::Tavily, &["country", "language"][..]),
        (Which::Brave, &["country", "language"]),
        (Which::Searxng, &["freshness"]),
        (Which::Exa, &["language"]),
    ] {
        let empty = which.answer(&[]).to_string();
        let (_, found) = ask(which, query(), move |_| answer(200, &[], &empty)).await;
        let names: Vec<String> =
            found.unwrap().ignored.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
        assert_eq!(names, ignored, "{which:?}");
    }
}

#[tokio::test]
async fn pages_beyond_a_providers_limit_are_refused() {
    let query = Query { count: 20, page: 2, ..Query::new("q") };
    let (requests, found) = ask(Which::Tavily, query, |_| Vec::new()).await;
    assert_eq!(requests.len(), 0);
    assert!(found.unwrap_err().to_string().contains("Tavily gives at most 20 results"));
}
