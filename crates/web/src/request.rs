//! A request, and what becomes of it when the server redirects.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::error::Refusal;
use crate::target::{Reach, Target};

#[cfg(test)]
mod tests;

/// Limits of one request, redirects included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For looking the name up, connecting and TLS, of each hop.
    pub connect: Duration,
    /// From the call to the last byte of the answer.
    pub whole: Duration,
    /// Bytes of the answer's body after decompression; the rest is not read.
    pub body: usize,
    /// Redirects that are followed.
    pub redirects: usize,
}

impl Default for Limits {
    /// connect 5 s, whole 20 s, body 2 MiB, 5 redirects.
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), whole: Duration::from_secs(20), body: 2 << 20, redirects: 5 }
    }
}

/// Headers that the connection sets, or that would change how a message is framed or where a proxy sends it.
pub(crate) const OF_THE_CONNECTION: [HeaderName; 11] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VIA,
];

/// The headers that another host receives after a redirect. All others may be credentials, whatever their names are.
const FOR_EVERY_HOST: [HeaderName; 3] = [header::ACCEPT, header::ACCEPT_LANGUAGE, header::USER_AGENT];

/// Which content types of an answer are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContentTypes {
    /// All, also none.
    #[default]
    Any,
    /// Text: `text/*`, JSON, XML, JavaScript, YAML.
    Text,
    /// Text, and these types, for instance `application/pdf`.
    TextAnd(&'static [&'static str]),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL; it is judged when the request is sent.
    pub url: String,
    /// Headers, besides those of the connection.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Which content types a successful answer may have.
    pub accepts: ContentTypes,
    /// Whether redirects are followed; otherwise one is a [`Refusal::Redirected`].
    pub follows: bool,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            accepts: ContentTypes::Any,
            follows: true,
        }
    }

    /// A GET request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    /// A POST request with a body of JSON.
    pub fn post_json(url: impl Into<String>, body: &serde_json::Value) -> Self {
        let mut request = Self::new(Method::POST, url);
        request.body = Bytes::from(body.to_string());
        request.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    /// Sets a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets a header to a secret, after a prefix like `Bearer `. It is not printed, and no other host receives it.
    ///
    /// # Errors
    /// [`Refusal::Header`] if the secret contains characters that no header can have.
    pub fn secret(mut self, name: HeaderName, prefix: &str, secret: &SecretString) -> Result<Self, Refusal> {
        let value = HeaderValue::from_str(&format!("{prefix}{}", secret.expose_secret()));
        let mut value = value.map_err(|_| Refusal::Header(name.as_str().to_owned()))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }
}

/// A request at its current address.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    follows: bool,
}

impl Hop {
    /// The first hop of a request.
    pub(crate) fn first(request: &Request, reach: &Reach) -> Result<Self, Refusal> {
        let target = Target::parse(&request.url, reach)?;
        if let Some(name) = OF_THE_CONNECTION.iter().find(|name| request.headers.contains_key(*name)) {
            return Err(Refusal::Header(name.as_str().to_owned()));
        }
        // The operator's own hosts may be in a network of its own, without TLS.
        let is_open = target.url().scheme() == "http" && matches!(reach, Reach::Public);
        if is_open && request.headers.values().any(HeaderValue::is_sensitive) {
            return Err(Refusal::PlainSecret(target.host().to_owned()));
        }
        Ok(Self {
            method: request.method.clone(),
            target,
            headers: request.headers.clone(),
            body: request.body.clone(),
            follows: request.follows,
        })
    }

    /// The next hop, if an answer is a redirect: one is followed after GET and HEAD, and with GET after "303 See Other".
    pub(crate) fn next(
        &self,
        status: StatusCode,
        location: Option<&HeaderValue>,
        reach: &Reach,
    ) -> Result<Option<Self>, Refusal> {
        let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(location) = location.filter(|_| is_redirect) else { return Ok(None) };
        let host = self.target.host().to_owned();
        let bad = || Refusal::BadRedirect(host.clone());
        // Servers send paths in UTF-8 although they should encode them.
        let location = std::str::from_utf8(location.as_bytes()).map_err(|_| bad())?;
        let url = self.target.url().join(location).map_err(|_| bad())?;
        if self.target.url().scheme() == "https" && url.scheme() == "http" {
            return Err(Refusal::Downgrade(host));
        }
        let refused = |refusal| Refusal::RedirectTo { host: host.clone(), refusal: Box::new(refusal) };
        let target = Target::judge(url, reach).map_err(refused)?;
        if !self.follows {
            return Err(Refusal::Redirected { host, to: without_query(target.url()) });
        }
        let reads = matches!(self.method, Method::GET | Method::HEAD);
        if !reads && status != StatusCode::SEE_OTHER {
            let method = self.method.as_str().to_owned();
            let to = without_query(target.url());
            return Err(Refusal::RedirectOfWrite { host, method, status: status.as_u16(), to });
        }
        Ok(Some(self.moved_to(target, reads)))
    }

    fn moved_to(&self, target: Target, reads: bool) -> Self {
        let mut headers = self.headers.clone();
        if self.target.url().origin() != target.url().origin() {
            headers = FOR_EVERY_HOST
                .into_iter()
                .filter_map(|name| headers.get(&name).cloned().map(|value| (name, value)))
                .filter(|(_, value)| !value.is_sensitive())
                .collect();
        }
        if reads {
            return Self { target, headers, ..self.clone() };
        }
        headers.remove(header::CONTENT_TYPE);
        Self { method: Method::GET, target, headers, body: Bytes::new(), follows: self.follows }
    }
}

fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.into()
}
