//! Receivers of webhooks: which addresses they may have, and one signed request to one of them.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};

use crate::client::{Client, TenantReach};
use crate::connector::Tls;
use crate::request::{Limits, Request};
use crate::webhook::{ID, Signer};

/// Bytes of an answer that are read, so that its connection can be used again.
const MAX_ANSWER: usize = 64 * 1024;

/// Sends webhooks: to the public internet over https, and to the hosts that the operator lists.
#[derive(Debug)]
pub struct Sinks {
    reach: TenantReach,
    limits: Limits,
    /// For the public internet, and for the listed hosts. Made with the first request: reading the certificates of the machine takes long.
    clients: OnceLock<Option<(Client, Client)>>,
}

/// A message to a receiver.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// Where it is sent.
    pub url: &'a str,
    /// Its id, the same for each attempt.
    pub id: &'a str,
    /// The body.
    pub body: Bytes,
    /// What the body is.
    pub content_type: &'static str,
    /// Where it belongs in a trace: a `traceparent`.
    pub traceparent: Option<&'a str>,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What went wrong, for people; `None`: it was accepted.
    pub error: Option<String>,
    /// How many seconds the receiver asks to wait.
    pub retry_after_s: Option<u64>,
}

impl Attempt {
    fn failed(error: String) -> Self {
        Self { status: None, error: Some(error), retry_after_s: None }
    }

    /// Whether it was accepted.
    pub fn is_accepted(&self) -> bool {
        self.error.is_none()
    }

    /// Whether the receiver wants no more of them.
    pub fn is_gone(&self) -> bool {
        self.status == Some(StatusCode::GONE.as_u16())
    }
}

impl Sinks {
    /// `hosts`: addresses outside of the public internet that the operator allows, checked with the settings. A request ends
    /// after `timeout`.
    pub fn new(hosts: &[String], timeout: Duration) -> Self {
        let limits = Limits { whole: timeout, body: MAX_ANSWER, redirects: 0, ..Limits::default() };
        Self { reach: TenantReach::new(hosts, "events"), limits, clients: OnceLock::new() }
    }

    /// Whether a receiver may have this address, as far as this can be said before its name is looked up.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn judge(&self, url: &str) -> Result<(), String> {
        self.reach.judge(url).map(drop)
    }

    /// Sends a message, signed at this time. It is not sent again here.
    pub async fn send(&self, message: &Message<'_>, signer: &Signer, now: DateTime<Utc>) -> Attempt {
        let seconds = u64::try_from(now.timestamp()).unwrap_or(0);
        match signer.headers(message.id, seconds, &message.body) {
            Ok(headers) => self.post(message, headers, now).await,
            Err(error) => Attempt::failed(error.to_string()),
        }
    }

    /// Sends a message with headers by which its receiver knows the sender, instead of a signature. It is not sent again here.
    pub async fn send_with(
        &self,
        message: &Message<'_>,
        secrets: &[(&'static str, String)],
        now: DateTime<Utc>,
    ) -> Attempt {
        let mut headers = HeaderMap::new();
        let secrets = secrets.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in std::iter::once((ID.as_str(), message.id)).chain(secrets) {
            let Ok(mut value) = HeaderValue::from_str(value) else {
                return Attempt::failed(format!("the value of the header `{name}` cannot be sent"));
            };
            value.set_sensitive(true);
            let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
            headers.insert(name, value);
        }
        self.post(message, headers, now).await
    }

    async fn post(&self, message: &Message<'_>, headers: HeaderMap, now: DateTime<Utc>) -> Attempt {
        let is_listed = match self.reach.judge(message.url) {
            Ok(is_listed) => is_listed,
            Err(reason) => return Attempt::failed(format!("the address {reason}")),
        };
        let clients = self.clients.get_or_init(|| self.clients());
        let Some((public, listed)) = clients else {
            return Attempt::failed("TLS does not start on this machine".to_owned());
        };
        let client = if is_listed { listed } else { public };
        let mut request = Request::new(Method::POST, message.url);
        request.headers = headers;
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(message.content_type));
        if let Some(Ok(traceparent)) = message.traceparent.map(HeaderValue::from_str) {
            request.headers.insert("traceparent", traceparent);
        }
        request.body = message.body.clone();
        request.follows = false;
        match client.send(request).await {
            Ok(answer) if answer.status.is_success() => {
                Attempt { status: Some(answer.status.as_u16()), error: None, retry_after_s: None }
            }
            Ok(answer) => Attempt {
                status: Some(answer.status.as_u16()),
                error: Some(format!("the receiver answered {}", answer.status)),
                retry_after_s: retry_after(&answer.headers, now),
            },
            Err(error) => Attempt::failed(error.to_string()),
        }
    }

    fn clients(&self) -> Option<(Client, Client)> {
        let tls = Tls::system().ok()?;
        let client = |is_listed| self.reach.client(is_listed, tls.clone(), self.limits);
        Some((client(false), client(true)))
    }
}

/// The seconds of `Retry-After`: a number, or a date.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?;
    u64::try_from((at.with_timezone(&Utc) - now).num_seconds()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_public_https_or_listed() {
        let sinks = Sinks::new(&["http://127.0.0.1:4711".to_owned()], Duration::from_secs(1));
        for url in ["https://hooks.acme.com/in?x=1", "http://127.0.0.1:4711/any"] {
            assert_eq!(sinks.judge(url), Ok(()), "{url}");
        }
        for url in [
            "http://hooks.acme.com/",
            "https://127.0.0.1/",
            "http://127.0.0.1:4712/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://0x7f.1/",
            "https://localhost/",
            "https://user:key@hooks.acme.com/",
            "file:///etc/passwd",
            "",
        ] {
            assert!(sinks.judge(url).is_err(), "{url}");
        }
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = DateTime::from_timestamp(1_445_412_420, 0).unwrap();
        for (text, expected) in [
            ("120", Some(120)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(60)),
            ("Wed, 21 Oct 2015 07:26:00 GMT", None),
            ("soon", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(retry_after(&headers, now), expected, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
