//! What a server answered.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::body::Decoder;
use crate::error::{Phase, WebError};
use crate::request::{ContentTypes, Limits};
use crate::target::Target;

/// Content types of text outside of `text/*`; types that end with `+json`, `+xml` or `+yaml` are text, too.
const TEXT: [&str; 10] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/ndjson",
    "application/x-ndjson",
    "application/xml",
    "application/x-yaml",
    "application/yaml",
];

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The URL that answered, after redirects.
    pub url: Url,
    /// Redirects that were followed.
    pub redirects: usize,
    /// The headers. Like the body, they are written by others.
    pub headers: HeaderMap,
    /// The body after decompression.
    pub body: Bytes,
    /// Whether only the beginning of the body is here: it is longer than [`Limits::body`], or goes on after gzip.
    pub is_cut: bool,
}

impl Response {
    /// The content type without parameters, in small letters.
    pub fn content_type(&self) -> Option<String> {
        content_type(&self.headers)
    }
}

/// An answer whose body is still on its way. Dropping it closes the connection.
pub struct Answer {
    status: StatusCode,
    target: Target,
    redirects: usize,
    headers: HeaderMap,
    body: Incoming,
    decoder: Decoder,
    /// Compressed bytes that may still arrive.
    left: usize,
    is_cut: bool,
    is_done: bool,
    limits: Limits,
    deadline: Instant,
}

impl Answer {
    pub(crate) fn new(
        response: http::Response<Incoming>,
        target: Target,
        redirects: usize,
        accepts: &ContentTypes,
        limits: Limits,
        deadline: Instant,
    ) -> Result<Self, WebError> {
        let (head, body) = response.into_parts();
        let host = || target.host().to_owned();
        let content_type = content_type(&head.headers);
        let has_content = head.status.is_success() && head.status != StatusCode::NO_CONTENT;
        if has_content && !is_accepted(accepts, content_type.as_deref()) {
            let got = content_type.unwrap_or_else(|| "no content type".to_owned());
            return Err(WebError::ContentType { host: host(), got: got.chars().take(100).collect() });
        }
        let decoder = Decoder::of(&head.headers, limits.body);
        let decoder = decoder.map_err(|encoding| WebError::Encoding { host: host(), encoding })?;
        Ok(Self {
            status: head.status,
            target,
            redirects,
            headers: head.headers,
            body,
            decoder,
            left: limits.body,
            is_cut: false,
            is_done: false,
            limits,
            deadline,
        })
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The URL that answered, after redirects.
    pub fn url(&self) -> &Url {
        self.target.url()
    }

    /// Whether the body is longer than [`Limits::body`]; certain after the last chunk.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next bytes of the body after decompression; `None` at its end or at the limit.
    ///
    /// # Errors
    /// [`WebError::Timeout`] at the limit of the whole request, [`WebError::Broken`] if the connection breaks.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, WebError> {
        while !self.is_done {
            let Ok(frame) = timeout_at(self.deadline, self.body.frame()).await else {
                let host = self.target.host().to_owned();
                return Err(WebError::Timeout { host, phase: Phase::Body, limit: self.limits.whole });
            };
            let decoded = match frame {
                None => {
                    self.is_done = true;
                    // An answer to HEAD has the encoding of a body that is not sent.
                    if self.left == self.limits.body { Ok(Bytes::new()) } else { self.decoder.finish() }
                }
                Some(Ok(frame)) => {
                    // Trailers are not read.
                    let Ok(piece) = frame.into_data() else { continue };
                    let taken = piece.len().min(self.left);
                    self.left -= taken;
                    let decoded = self.decoder.push(&piece[..taken]);
                    self.is_cut = taken < piece.len() || self.decoder.is_full();
                    self.is_done = self.is_cut;
                    decoded
                }
                Some(Err(_)) => return Err(self.broken("the connection was closed before its end")),
            };
            let decoded = decoded.map_err(|_| self.broken("it is not valid gzip"))?;
            if !decoded.is_empty() {
                return Ok(Some(decoded));
            }
        }
        Ok(None)
    }

    /// The rest of the answer.
    pub(crate) async fn whole(mut self) -> Result<Response, WebError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(Response {
            status: self.status,
            url: self.target.url().clone(),
            redirects: self.redirects,
            headers: self.headers,
            body: Bytes::from(body),
            is_cut: self.is_cut,
        })
    }

    fn broken(&self, reason: &str) -> WebError {
        WebError::Broken { host: self.target.host().to_owned(), reason: reason.to_owned() }
    }
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = text.split(';').next().unwrap_or_default().trim();
    (!essence.is_empty()).then(|| essence.to_ascii_lowercase())
}

fn is_accepted(accepts: &ContentTypes, content_type: Option<&str>) -> bool {
    let also: &[&str] = match accepts {
        ContentTypes::Any => return true,
        ContentTypes::Text => &[],
        ContentTypes::TextAnd(also) => also,
    };
    content_type.is_some_and(|essence| {
        essence.starts_with("text/")
            || TEXT.contains(&essence)
            || ["+json", "+xml", "+yaml"].iter().any(|suffix| essence.ends_with(suffix))
            || also.contains(&essence)
    })
}

#[cfg(test)]
mod tests {
    use super::is_accepted;
    use crate::request::ContentTypes;

    #[test]
    fn text_is_accepted_and_other_types_only_if_named() {
        for essence in
            ["text/html", "text/markdown", "application/json", "application/rss+xml", "image/svg+xml"]
        {
            assert!(is_accepted(&ContentTypes::Text, Some(essence)), "{essence}");
        }
        for essence in ["image/png", "application/octet-stream", "application/pdf", "video/mp4", "text"] {
            assert!(!is_accepted(&ContentTypes::Text, Some(essence)), "{essence}");
            assert!(is_accepted(&ContentTypes::Any, Some(essence)), "{essence}");
        }
        assert!(is_accepted(&ContentTypes::TextAnd(&["application/pdf"]), Some("application/pdf")));
        assert!(!is_accepted(&ContentTypes::Text, None) && is_accepted(&ContentTypes::Any, None));
    }
}
