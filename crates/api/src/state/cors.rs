//! Cross-origin requests: pages of the configured origins may call the API from a browser, with a client token. Cookies are
//! not used, so none are allowed.

use std::fmt;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::caller::USER_HEADER;

/// How long a browser may keep the answer to a preflight request.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Which pages of other origins may call the API.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorsConfig {
    /// The origins; empty: none.
    pub origins: Vec<Origin>,
}

/// Scheme, host and port of a page, as browsers send them: `https://app.example.com`, `http://localhost:5173`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Origin(String);

/// A text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no origin: it must be as browsers send it, scheme and host in lower case with a port unless it is the usual one, \
     and nothing after that, as in `https://app.example.com` or `http://localhost:5173`"
)]
pub struct InvalidOrigin(String);

impl TryFrom<String> for Origin {
    type Error = InvalidOrigin;

    fn try_from(text: String) -> Result<Self, InvalidOrigin> {
        let host = text.strip_prefix("https://").map(|host| (host, ":443"));
        let host = host.or_else(|| text.strip_prefix("http://").map(|host| (host, ":80")));
        let is_host =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
        let is_valid = host.is_some_and(|(host, usual_port)| {
            !host.is_empty()
                && host.bytes().all(is_host)
                && !host.ends_with(usual_port)
                && !host.ends_with(':')
        });
        if is_valid { Ok(Self(text)) } else { Err(InvalidOrigin(text)) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CorsConfig {
    /// Lets pages of the origins call the routes. Without origins nothing is added.
    pub(crate) fn allow(&self, routes: Router) -> Router {
        if self.origins.is_empty() {
            return routes;
        }
        let origins = self.origins.iter().filter_map(|origin| HeaderValue::from_str(&origin.0).ok());
        let sent = ["idempotency-key", "if-none-match", "last-event-id", "x-request-id", "traceparent"];
        let sent = sent.map(HeaderName::from_static).into_iter().chain([USER_HEADER]);
        let read =
            ["x-request-id", "idempotent-replayed", "ratelimit", "ratelimit-policy", "houston-missing-cells"];
        let read = read.map(HeaderName::from_static).into_iter();
        let layer = CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
            .allow_headers(sent.chain([header::AUTHORIZATION, header::CONTENT_TYPE]).collect::<Vec<_>>())
            .expose_headers(
                read.chain([header::ETAG, header::LOCATION, header::RETRY_AFTER]).collect::<Vec<_>>(),
            )
            .max_age(MAX_AGE);
        routes.layer(layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_what_browsers_send() {
        for valid in
            ["https://app.example.com", "http://localhost:5173", "https://[::1]:8443", "http://10.0.0.1"]
        {
            assert!(Origin::try_from(valid.to_owned()).is_ok(), "{valid}");
        }
        for invalid in [
            "",
            "*",
            "null",
            "app.example.com",
            "https://",
            "https://app.example.com/",
            "https://App.example.com",
            "https://app.example.com:443",
            "http://app.example.com:80",
            "http://app.example.com:",
            "https://user@app.example.com",
            "ftp://app.example.com",
        ] {
            let refused = Origin::try_from(invalid.to_owned()).unwrap_err().to_string();
            assert!(refused.contains("http://localhost:5173"), "{invalid}: {refused}");
        }
    }
}
