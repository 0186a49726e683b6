//! What all providers have in common: sending a request, statuses, reading JSON, cutting results.

use http::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Found, Hit, Key, Provider, Query, SNIPPET_CHARACTERS, Search, domains};
use crate::error::{Failure, Fault, WebError};
use crate::request::Request;

/// Sends a request with the key, if there is one, in this header after this prefix, and reads the answer's JSON.
pub(super) async fn json<T: DeserializeOwned>(
    search: &Search,
    request: Request,
    header: HeaderName,
    prefix: &str,
) -> Result<T, Failure> {
    let (provider, key) = (search.provider.name(), search.key.as_ref());
    let bad_key = |status: u16| {
        let text = format!(
            "{provider} rejected the API key (HTTP {status}): a valid one must be set in this installation"
        );
        Failure::new(Fault::Config, text)
    };
    let request = match key {
        Some(key) => request.secret(header, prefix, key),
        None => Ok(request),
    };
    // Only a key with characters that no header can have makes a request fail to build.
    let request = request.map_err(|_| bad_key(401))?;
    let response = search.client.send(request).await.map_err(|error| not_answered(provider, &error))?;
    let unreadable = |reason: &str| {
        Failure::new(Fault::Io, format!("{provider} sent an answer that cannot be read: {reason}"))
    };
    let status = response.status.as_u16();
    if !response.status.is_success() {
        let (fault, text) = match status {
            403 if search.provider == Provider::Searxng => (Fault::Config, JSON_IS_OFF.to_owned()),
            401 | 403 => return Err(bad_key(status)),
            // 402: Exa; 432 and 433: Tavily's plan and pay-as-you-go limits.
            402 | 432 | 433 => {
                let text =
                    format!("the plan at {provider} is used up (HTTP {status}): it must be extended there");
                (Fault::Config, text)
            }
            429 => {
                let wait =
                    retry_after(&response.headers).map(|seconds| format!(": try again in {seconds} s"));
                let wait = wait.unwrap_or_default();
                (Fault::RateLimited, format!("{provider} allows no more searches at the moment{wait}"))
            }
            400 | 404 | 405 | 413 | 414 | 422 => {
                let message = beginning(&response.body, key);
                (Fault::Invalid, format!("{provider} rejected the search (HTTP {status}): {message}"))
            }
            _ => (Fault::Io, format!("{provider} failed (HTTP {status}): try again later")),
        };
        return Err(Failure::new(fault, text));
    }
    if response.is_cut {
        return Err(unreadable("it is too long"));
    }
    serde_json::from_slice(&response.body).map_err(|error| unreadable(&scrubbed(&error.to_string(), key)))
}

const JSON_IS_OFF: &str = "the SearXNG server does not allow JSON: its operator must add `json` to `search.formats` in settings.yml";

fn not_answered(provider: &str, error: &WebError) -> Failure {
    let fault = match error.fault() {
        // The address of a provider is a setting, not an argument of the search.
        Fault::Forbidden | Fault::Invalid | Fault::NotFound => Fault::Config,
        fault => fault,
    };
    Failure::new(fault, format!("{provider}: {error}"))
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

/// How many seconds to wait: `Retry-After`, or Brave's `X-RateLimit-Reset`, one number for each limit
/// (<https://api.search.brave.com/app/documentation/web-search/response-headers>).
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let numbers = |name: &str| -> Vec<u64> {
        let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        text.split(',').map_while(|number| number.trim().parse().ok()).collect()
    };
    if let [seconds] = numbers("retry-after")[..] {
        return Some(seconds);
    }
    let (resets, remaining) = (numbers("x-ratelimit-reset"), numbers("x-ratelimit-remaining"));
    let used_up =
        resets.iter().zip(remaining).filter(|(_, remaining)| *remaining == 0).map(|(reset, _)| *reset);
    used_up.max().or_else(|| resets.first().copied())
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

/// What most providers answer.
#[derive(Deserialize)]
struct Answer {
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    title: Option<String>,
    url: String,
    content: Option<String>,
    highlights: Option<Vec<String>>,
    #[serde(alias = "publishedDate")]
    published_date: Option<String>,
    score: Option<f64>,
}

/// Asks a provider that answers as most do: the results without the first `skip`.
pub(super) async fn ask(
    search: &Search,
    request: Request,
    (header, scheme): (HeaderName, &str),
    (query, skip): (&Query, usize),
    ignored: Vec<String>,
) -> Result<Found, Failure> {
    let answer: Answer = json(search, request, header, scheme).await?;
    let hits = answer.results.into_iter().map(|page| {
        let snippet = page.content.or_else(|| page.highlights.map(|highlights| highlights.join(" … ")));
        hit(page.title, page.url, snippet, page.published_date, page.score)
    });
    Ok(found(query, hits, skip, ignored))
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
        let seconds = |pairs: &[_]| retry_after(&headers(pairs));
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
