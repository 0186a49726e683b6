//! Spans of requests.

use opentelemetry::trace::SpanKind;

use crate::parent::TraceParent;
use crate::span::{Follows, Span, Spans, attribute, count};

/// A method by its name. Clients may send any: those that HTTP does not have are one.
fn standard(method: &str) -> &'static str {
    const STANDARD: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    STANDARD.into_iter().find(|one| *one == method).unwrap_or("_OTHER")
}

impl Spans {
    /// A request has come; it is a part of what its client sends as `parent`.
    #[must_use]
    pub fn request(&self, method: &str, parent: Option<&TraceParent>) -> Span {
        let from = parent.map_or(Follows::Nothing, Follows::Parent);
        let make = || {
            let method = standard(method);
            (method.into(), SpanKind::Server, vec![attribute("http.request.method", method)])
        };
        self.begin(make, from)
    }
}

impl Span {
    /// The request was answered. `route`: the pattern of its path.
    pub fn answered_request(&self, method: &str, route: &str, status: u16) {
        self.rename(|| format!("{} {route}", standard(method)));
        self.set(|_| {
            vec![
                attribute("http.route", route.to_owned()),
                count("http.response.status_code", u64::from(status)),
            ]
        });
        if status >= 500 {
            self.failed("5xx");
        }
    }
}
