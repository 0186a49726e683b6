//! Why an object cannot be read, written or deleted.

use std::iter::successors;

/// An error of the object store. It has no credentials in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such object.
    #[error("the object store has no object {0}")]
    NotThere(String),
    /// It cannot be reached, refuses the request, or does not answer in time.
    #[error("the object store cannot be used now: {0}")]
    Unavailable(String),
}

impl Error {
    pub(crate) fn of(error: &object_store::Error, key: &str) -> Self {
        if matches!(error, object_store::Error::NotFound { .. }) {
            return Self::NotThere(key.to_owned());
        }
        Self::Unavailable(with_causes(error))
    }
}

/// An error with the first of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in successors(error.source(), |&cause| cause.source()).take(4) {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    // Answers of servers may be pages.
    text.chars().take(500).collect()
}
