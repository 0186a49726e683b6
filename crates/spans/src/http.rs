//! Spans of requests.

use crate::parent::TraceParent;
use crate::record::{SpanKind, attribute, count};
use crate::span::{Begun, Span, Spans};

/// A method by its name. Clients may send any: those that HTTP does not have are one.
fn standard(method: &str) -> &'static str {
    const STANDARD: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    STANDARD.into_iter().find(|one| *one == method).unwrap_or("_OTHER")
}

/// The conventions ask for the status as text; a kind of failure has few values.
fn error_type(status: u16) -> &'static str {
    match status {
        500 => "500",
        502 => "502",
        503 => "503",
        504 => "504",
        _ => "5xx",
    }
}

impl Spans {
    /// A request has come; it is a part of what its client sends as `parent`.
    pub fn request(&self, method: &str, parent: Option<&TraceParent>) -> Span {
        let make = || {
            let method = standard(method);
            let attributes = vec![attribute("http.request.method", method)];
            Begun { name: method.into(), kind: SpanKind::Server, attributes }
        };
        self.begin(make, parent, None)
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
            self.failed(error_type(status));
        }
    }
}
