//! Positions in a document, for error messages: `openapi.json#/paths/~1orders/post`.

use std::fmt;

use crate::json_api::Problem;

/// A file and a JSON Pointer (RFC 6901).
#[derive(Debug, Clone)]
pub(super) struct Pointer(String);

impl Pointer {
    pub(super) fn root(file: &str) -> Self {
        Self(format!("{file}#"))
    }

    pub(super) fn child(&self, key: &str) -> Self {
        Self(format!("{}/{}", self.0, key.replace('~', "~0").replace('/', "~1")))
    }

    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem { at: self.0.clone(), message: message.into() }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
