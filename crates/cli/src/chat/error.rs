//! Errors of `houston chat` and their exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use houston_protocol::problem::ProblemCode;

use crate::output::print_stderr;

/// An error that ends the chat. Beyond the exit codes of the crate: 3 (no server), 4 (no valid key), 5 (no such goal).
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatError {
    /// Nothing listens at the address, or every connection breaks.
    #[error("no server answers at {url} ({reason}): start `houston dev`, or name another server with --url")]
    Unreachable {
        /// The address.
        url: String,
        /// Why the connection failed.
        reason: String,
    },
    /// A server answers that is not Houston.
    #[error(
        "the server at {url} is not Houston (status {status}, {content}): name another server with --url"
    )]
    NotHouston {
        /// The address.
        url: String,
        /// The HTTP status of the response.
        status: u16,
        /// The content type of the response.
        content: String,
    },
    /// The address cannot be parsed.
    #[error("`{url}` is not the address of a server: --url takes one like http://127.0.0.1:8080")]
    BadUrl {
        /// The address as given.
        url: String,
    },
    /// No API key was found.
    #[error(
        "no API key: there is none in --key, in HOUSTON_API_KEY or in {}; `houston dev` writes it there, \
         `houston key create` makes one", .file.display()
    )]
    NoKey {
        /// The last file that was looked at.
        file: PathBuf,
    },
    /// The server rejected the API key.
    #[error("{url} rejects the API key from {origin}: give a valid one with --key or HOUSTON_API_KEY")]
    KeyRefused {
        /// The address.
        url: String,
        /// The option, variable or file the key was read from.
        origin: String,
    },
    /// The goal does not exist, or belongs to another tenant.
    #[error("there is no goal `{goal}` at {url} that this key gives access to")]
    GoalNotFound {
        /// The address.
        url: String,
        /// The id as given.
        goal: String,
    },
    /// What was given is no id of a plan.
    #[error("`{plan}` is not the id of a plan, as in plan_0190…")]
    NoPlan {
        /// What was given.
        plan: String,
    },
    /// The server refused the request.
    #[error("{detail} ({code})")]
    Refused {
        /// The problem code, e.g. `invalid_request`.
        code: ProblemCode,
        /// The reason, for a person.
        detail: String,
    },
    /// There was no message to post.
    #[error("no message: give one as an argument, or lines on stdin")]
    NoMessage,
    /// An image cannot be posted.
    #[error("the image {} is not sent: {why}", .path.display())]
    Image {
        /// Its file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
    /// The signal handlers cannot be installed.
    #[error("signal handlers cannot be installed: {0}")]
    Signals(String),
}

impl ChatError {
    /// Prints it to stderr; returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        print_stderr(&format!("houston: {self}"));
        ExitCode::from(self.exit_code())
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::NotHouston { .. } => 3,
            Self::NoKey { .. } | Self::KeyRefused { .. } => 4,
            Self::GoalNotFound { .. } => 5,
            Self::NoPlan { .. } | Self::BadUrl { .. } | Self::NoMessage | Self::Image { .. } => 2,
            Self::Refused { .. } | Self::Client(_) | Self::Signals(_) => 1,
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
