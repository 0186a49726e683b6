//! A model that cannot be called, for a reason known at start-up.

use futures_util::future::{self, BoxFuture};
use houston_domain::model::ModelError;

use crate::model::{Description, EventStream, Model, Request};

/// Fails every call with the same error. A missing key thus fails the run, where users see it, and not the process.
#[derive(Debug, Clone)]
pub struct Unavailable {
    description: Description,
    error: ModelError,
}

impl Unavailable {
    /// Creates a stand-in for the model of `description`.
    #[must_use]
    pub fn new(description: Description, error: ModelError) -> Self {
        Self { description, error }
    }
}

impl Model for Unavailable {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, _request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(future::ready(Err(self.error.clone())))
    }
}
