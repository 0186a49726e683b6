//! Headers of every answer: what a browser may do with it. Headers of requests: which POST requests are the console's own, those
//! that its own pages send.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// Nothing but the console's own files runs, styles, or is asked for.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

pub(crate) async fn add(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Refuses what a page of another site sends. Besides, the cookie is `SameSite=Strict`.
pub(crate) async fn check_origin(request: Request, next: Next) -> Response {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_safe || is_own(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "This request does not come from a page of the console.\n").into_response()
}

/// By what browsers say and pages cannot change: `Sec-Fetch-Site`, or with older ones `Origin`. A request that says neither
/// is not from a browser, and programs have the API.
fn is_own(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => {
            let host = text(header::HOST.as_str()).unwrap_or_default();
            origin.split_once("://").is_some_and(|(_, of)| !host.is_empty() && of.eq_ignore_ascii_case(host))
        }
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn own(pairs: &[(&'static str, &'static str)]) -> bool {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        is_own(&pairs.collect())
    }

    #[test]
    fn only_own_pages_may_post() {
        assert!(own(&[("sec-fetch-site", "same-origin"), ("host", "a:1")]));
        assert!(own(&[("origin", "http://a:1"), ("host", "a:1")]));
        for wrong in [
            &[("sec-fetch-site", "cross-site"), ("origin", "http://a:1"), ("host", "a:1")][..],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("origin", "http://b:1"), ("host", "a:1")],
            &[("origin", "null"), ("host", "a:1")],
            &[("origin", "http://a:1")],
            &[("host", "a:1")],
        ] {
            assert!(!own(wrong), "{wrong:?}");
        }
    }
}
