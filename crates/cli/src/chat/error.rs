//! Why a conversation cannot be had, and the exit code that says so to programs.

use std::path::PathBuf;

/// See the crate's exit codes: these add 3 (no server), 4 (no key) and 5 (no such goal).
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatError {
    /// Nobody listens there, or the connection breaks each time.
    #[error("nothing answers at {url} ({reason}): start `houston dev`, or name another server with --url")]
    Unreachable {
        /// Where.
        url: String,
        /// What happened instead.
        reason: String,
    },
    /// Somebody answers, but not Houston.
    #[error(
        "what answers at {url} is not Houston (status {status}, {content}): name another server with --url"
    )]
    NotHouston {
        /// Where.
        url: String,
        /// What was answered.
        status: u16,
        /// The answer's type.
        content: String,
    },
    /// The address is none.
    #[error("`{url}` is not the address of a server: --url takes one like http://127.0.0.1:8080")]
    BadUrl {
        /// As given.
        url: String,
    },
    /// There is no key to be found.
    #[error(
        "no API key: there is none in --key, in HOUSTON_API_KEY or in {}; `houston dev` writes it there, \
         `houston key create` makes one", .file.display()
    )]
    NoKey {
        /// The last place looked at.
        file: PathBuf,
    },
    /// The key opens nothing.
    #[error(
        "{url} does not take the API key from {origin}: give the right one with --key or HOUSTON_API_KEY"
    )]
    KeyRefused {
        /// Where.
        url: String,
        /// Where the key is from.
        origin: String,
    },
    /// There is no such goal, or it is another tenant's.
    #[error("{url} has no goal `{goal}` that this key may see")]
    NoGoal {
        /// Where.
        url: String,
        /// Which one.
        goal: String,
    },
    /// The server would not do it.
    #[error("{detail} ({code})")]
    Refused {
        /// The stable name of the reason.
        code: String,
        /// The same for a person.
        detail: String,
    },
    /// There was no message to post.
    #[error("nothing was said: give a message, or lines on stdin")]
    NothingSaid,
    /// No client for HTTP can be built.
    #[error("no HTTP client could be built: {0}")]
    Client(String),
    /// Ctrl-C cannot be listened to.
    #[error("signals cannot be listened to: {0}")]
    Signals(String),
}

impl ChatError {
    /// What the process exits with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::NotHouston { .. } => 3,
            Self::NoKey { .. } | Self::KeyRefused { .. } => 4,
            Self::NoGoal { .. } => 5,
            Self::BadUrl { .. } | Self::NothingSaid => 2,
            Self::Refused { .. } | Self::Client(_) | Self::Signals(_) => 1,
        }
    }

    /// Whether the same request may work in a moment.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { code, .. } => matches!(code.as_str(), "unavailable" | "internal"),
            _ => false,
        }
    }
}
