//! What all providers have in common: sending a request, statuses, reading JSON, cutting results.

use std::time::Duration;

use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;

use super::{Found, Hit, Key, Query, SNIPPET_CHARACTERS, Search, SearchError, domains};
use crate::error::WebError;
use crate::request::Request;

/// Sends a request with the key, if there is one, in this header after this prefix, and reads the answer's JSON.
pub(super) async fn json<T: DeserializeOwned>(
    search: &Search,
    request: Request,
    header: HeaderName,
    prefix: &str,
) -> Result<T, SearchError> {
    let (provider, key) = (search.provider.name(), search.key.as_ref());
    let request = match key {
        Some(key) => request.secret(header, prefix, key),
        None => Ok(request),
    };
    let failed = |error: WebError| SearchError::Web { provider, error };
    // Only a key with characters that no header can have makes a request fail to build.
    let request = request.map_err(|_| SearchError::Key { provider, status: 401 })?;
    let response = search.client.send(request).await.map_err(failed)?;
    let unreadable = |reason: String| SearchError::Unreadable { provider, reason };
    let status = response.status.as_u16();
    if !response.status.is_success() {
        return Err(match status {
            401 | 403 => SearchError::Key { provider, status },
            // 402: Exa; 432 and 433: Tavily's plan and pay-as-you-go limits.
            402 | 432 | 433 => SearchError::UsedUp { provider, status },
            429 => SearchError::RateLimited { provider, retry_after: retry_after(&response.headers) },
            400 | 404 | 405 | 413 | 414 | 422 => {
                SearchError::Rejected { provider, status, message: beginning(&response.body, key) }
            }
            _ => SearchError::Failed { provider, status },
        });
    }
    if response.is_cut {
        return Err(unreadable("it is too long".to_owned()));
    }
    serde_json::from_slice(&response.body).map_err(|error| unreadable(scrubbed(&error.to_string(), key)))
}

/// What a provider is sent of a question.
pub(super) struct Parameters {
    pub(super) parameters: Vec<(&'static str, String)>,
    /// What it does not understand, for the agent.
    pub(super) ignored: Vec<String>,
}

/// The request for this path with these parameters.
pub(super) fn get(search: &Search, path: &str, parameters: &[(&'static str, String)]) -> Request {
    let line = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    Request::get(format!("{}{path}?{line}", search.base))
        .header(ACCEPT, HeaderValue::from_static("application/json"))
}

/// The beginning of an answer, on one line and without the key, which some servers quote.
fn beginning(body: &[u8], key: Option<&Key>) -> String {
    let text = String::from_utf8_lossy(body);
    let line = scrubbed(&text.split_whitespace().collect::<Vec<_>>().join(" "), key);
    if line.is_empty() { "it gives no reason".to_owned() } else { line.chars().take(200).collect() }
}

fn scrubbed(text: &str, key: Option<&Key>) -> String {
    match key.map(|key| key.expose_secret()) {
        Some(key) if !key.is_empty() => text.replace(key, "[redacted]"),
        _ => text.to_owned(),
    }
}

/// How long to wait: `Retry-After` in seconds, or Brave's `X-RateLimit-Reset`, one number for each limit
/// (<https://api.search.brave.com/app/documentation/web-search/response-headers>).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let numbers = |name: &str| -> Vec<u64> {
        let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        text.split(',').map_while(|number| number.trim().parse().ok()).collect()
    };
    if let [seconds] = numbers("retry-after")[..] {
        return Some(Duration::from_secs(seconds));
    }
    let (resets, remaining) = (numbers("x-ratelimit-reset"), numbers("x-ratelimit-remaining"));
    let used_up =
        resets.iter().zip(remaining).filter(|(_, remaining)| *remaining == 0).map(|(reset, _)| *reset);
    used_up.max().or_else(|| resets.first().copied()).map(Duration::from_secs)
}

/// The results that fit the question, without the first `skip`.
pub(super) fn found(
    query: &Query,
    hits: impl IntoIterator<Item = Hit>,
    skip: usize,
    ignored: Vec<String>,
) -> Found {
    let fitting = hits.into_iter().skip(skip).filter(|hit| domains::fits(query, hit));
    Found { results: fitting.take(query.count).collect(), ignored }
}

/// A result from what a provider sent.
pub(super) fn hit(
    title: Option<String>,
    url: String,
    snippet: Option<String>,
    published: Option<String>,
    score: Option<f64>,
) -> Hit {
    let line =
        |text: Option<String>| text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    Hit {
        title: line(title).chars().take(300).collect(),
        url,
        snippet: line(snippet).chars().take(SNIPPET_CHARACTERS).collect(),
        published: published.filter(|text| !text.trim().is_empty()),
        score: score.filter(|score| score.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair =
            |&(name, value): &(&'static str, &'static str)| (name.parse().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn waits_are_read_from_each_providers_headers() {
        let seconds = |pairs: &[_]| retry_after(&headers(pairs)).map(|wait| wait.as_secs());
        assert_eq!(seconds(&[("retry-after", "7")]), Some(7));
        assert_eq!(seconds(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")]), None);
        assert_eq!(seconds(&[("x-ratelimit-reset", "1, 1419704")]), Some(1));
        let brave = [("x-ratelimit-reset", "1, 1419704"), ("x-ratelimit-remaining", "0, 12")];
        assert_eq!(seconds(&brave), Some(1));
        let month = [("x-ratelimit-reset", "1, 1419704"), ("x-ratelimit-remaining", "1, 0")];
        assert_eq!(seconds(&month), Some(1_419_704));
        assert_eq!(seconds(&[]), None);
    }
}
