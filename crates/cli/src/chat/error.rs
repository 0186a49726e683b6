//! Errors of `houston chat` and their exit codes.

use std::fmt::Display;
use std::process::ExitCode;

use houston_protocol::problem::ProblemCode;

use crate::output::print_stderr;

/// An error that ends the chat. Beyond the exit codes of the crate: 3 (no server), 4 (no valid key), 5 (no such goal).
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatError {
    /// Nothing listens at the address, or every connection breaks, for this reason.
    #[error("no server answers at {url} ({reason}): start `houston dev`, or name another server with --url")]
    Unreachable { url: String, reason: String },
    /// The goal does not exist, or belongs to another tenant.
    #[error("there is no goal `{goal}` at {url} that this key gives access to")]
    GoalNotFound { url: String, goal: String },
    /// The server refused the request, for a reason in words.
    #[error("{detail} ({code})")]
    Refused { code: ProblemCode, detail: String },
    /// Anything else, and the exit code of the process.
    #[error("{text}")]
    Other { text: String, exit: u8 },
}

/// The result of what ends the chat when it fails.
pub(crate) type Result<T, E = ChatError> = std::result::Result<T, E>;

impl ChatError {
    /// The signal handlers cannot be installed.
    pub(crate) fn signals(error: impl Display) -> Self {
        Self::Other { text: format!("signal handlers cannot be installed: {error}"), exit: 1 }
    }

    /// The HTTP client cannot be built.
    pub(crate) fn client(error: impl Display) -> Self {
        Self::Other { text: format!("the HTTP client cannot be built: {error}"), exit: 1 }
    }

    /// The arguments cannot be used.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Other { text: text.into(), exit: 2 }
    }

    /// Prints it to stderr; returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        print_stderr(&format!("houston: {self}"));
        ExitCode::from(self.exit_code())
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } => 3,
            Self::GoalNotFound { .. } => 5,
            Self::Refused { .. } => 1,
            Self::Other { exit, .. } => *exit,
        }
    }

    /// Whether the same request may succeed when it is repeated.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { code, .. } => {
                matches!(code, ProblemCode::Unavailable | ProblemCode::TimedOut | ProblemCode::Internal)
            }
            _ => false,
        }
    }
}
