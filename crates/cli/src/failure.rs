//! [`Failure`]: why a command could not do its work, and the exit code that follows.

use std::process::ExitCode;

use houston_api::LocalError;
use houston_protocol::problem::ProblemCode;

use crate::output::print_stderr;

/// The error of a command; the variant decides the exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage or settings: exit code 2.
    Usage(anyhow::Error),
    /// Any other error: exit code 1.
    Other(anyhow::Error),
}

/// The result of a command, or of a part of it.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Prints it to stderr; returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(error) => {
                print_stderr(&format!("houston: {error}"));
                ExitCode::from(2)
            }
            Self::Other(error) => {
                print_stderr(&format!("houston: {error:#}"));
                ExitCode::FAILURE
            }
        }
    }

    /// Wrong usage or settings.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    /// As it is; with `missing` in its place, if the API has not found what the command is about.
    pub(crate) fn or_missing(self, missing: impl FnOnce() -> anyhow::Error) -> Self {
        let is_missing = |error: &LocalError| error.is(ProblemCode::NotFound);
        match self {
            Self::Other(error) if error.downcast_ref().is_some_and(is_missing) => Self::Other(missing()),
            other => other,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let is_usage =
            |error: &LocalError| error.is(ProblemCode::InvalidRequest) || error.is(ProblemCode::NotCreatable);
        if error.downcast_ref().is_some_and(is_usage) { Self::Usage(error) } else { Self::Other(error) }
    }
}

/// The innermost cause of an error: what a server or the system said.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
