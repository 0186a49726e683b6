//! Why a request was refused: one enum, one stable `code` for each variant.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use serde::Serialize;

use crate::explain::Unexplained;
use crate::problem::Refused;

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where in the body: a JSON Pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Which query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// What is wrong with it.
    pub detail: String,
}

impl Fault {
    /// A fault of the body, at this JSON Pointer.
    pub(crate) fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), parameter: None, detail: detail.into() }
    }
}

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No key, or none that is known.
    #[error("this needs a valid API key: `Authorization: Bearer hou_…`")]
    Unauthorized,
    /// Nothing of that name that the caller may see.
    #[error("there is no such {what}")]
    NotFound {
        /// `goal`, `message`, `route`, …
        what: &'static str,
    },
    /// The route has other methods.
    #[error("this route does not take this method; `Allow` names those it takes")]
    MethodNotAllowed,
    /// The body is no JSON.
    #[error("the body is not valid JSON: {reason}, at line {line}, column {column}")]
    InvalidJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What the parser found.
        reason: String,
    },
    /// The body, or the query, is not of the expected shape.
    #[error("the request does not have the expected shape")]
    InvalidRequest {
        /// What is wrong.
        errors: Vec<Fault>,
    },
    /// The body is of another type.
    #[error("the body must be sent as `Content-Type: application/json`")]
    UnsupportedMediaType,
    /// The body is too long.
    #[error("the body is longer than the {limit} bytes that are allowed")]
    BodyTooLarge {
        /// In bytes.
        limit: usize,
    },
    /// The body did not arrive in time, or broke off.
    #[error("the body did not arrive")]
    BodyMissing,
    /// The message is too long.
    #[error("the message has {bytes} bytes of UTF-8; {limit} are allowed")]
    MessageTooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The message says nothing.
    #[error("the message is empty")]
    EmptyMessage,
    /// The cursor is none of ours.
    #[error("the cursor is not one that this list gave out")]
    InvalidCursor,
    /// The stream position is none of ours.
    #[error("`{given}` is not a stream position: use the `id` of the last event you have, or 0")]
    InvalidPosition {
        /// As given, shortened.
        given: String,
    },
    /// The idempotency key is empty, too long or unprintable.
    #[error("an Idempotency-Key has 1 to 255 visible ASCII characters")]
    InvalidIdempotencyKey,
    /// The key was used for something else.
    #[error("this Idempotency-Key was used before, for another request")]
    IdempotencyKeyReused,
    /// There is such a thing already.
    #[error("a {what} with this {field} exists already")]
    AlreadyExists {
        /// `user`, …
        what: &'static str,
        /// Which of its fields must be unique.
        field: &'static str,
    },
    /// Nobody makes one of this kind by asking for it.
    #[error("a {kind} is not made through the API: {}", if *made_with_user { "it is made with its user" } else { "an agent begins it" })]
    NotCreatable {
        /// Which kind.
        kind: String,
        /// Whether it is made with its user.
        made_with_user: bool,
    },
    /// There are as many as may be.
    #[error("there may be {limit} {what}, and there are: delete one first")]
    Full {
        /// `notes of an agentable`, …
        what: &'static str,
        /// How many there may be.
        limit: i64,
    },
    /// It is the default agent of its kind.
    #[error(
        "this is the default agent of the kind `{kind}`, which answers where no other is chosen: change it, disable it \
         with `enabled`: false, or put it back as jobs/agents/{kind}.toml says with `reset`"
    )]
    DefaultAgent {
        /// Which kind.
        kind: String,
    },
    /// No file says what it is.
    #[error("`{name}` is no default agent: only those stand in files, to which `reset` puts them back")]
    NoDefaultAgent {
        /// What it is called.
        name: String,
    },
    /// Something else needs it.
    #[error("this {what} is in use: by {}, and perhaps others. Let another answer there first", by.join(", "))]
    InUse {
        /// `agent` or `team`.
        what: &'static str,
        /// Some of those that use it.
        by: Vec<String>,
    },
    /// It was changed since it was read.
    #[error("somebody changed it meanwhile: it is of version {version}. Read it anew, and change that")]
    StaleVersion {
        /// The version it has.
        version: i64,
    },
    /// The files of `jobs/agents` cannot be used.
    #[error("the files of jobs/agents cannot be used, and nothing was changed: {reason}")]
    UnreadableFiles {
        /// Which, where, and what is allowed.
        reason: String,
    },
    /// A run is open, and the message was to be rejected then.
    #[error(
        "{run} is open, and `double_texting` is `reject`: wait until it has ended, cancel it, or post with \
         `enqueue`, `interrupt` or `rollback`"
    )]
    RunInProgress {
        /// Which run.
        run: RunId,
    },
    /// A run is open, and what was asked for must not happen to it.
    #[error("{run} is open: wait until it has ended, or cancel it, and ask again")]
    RunOpen {
        /// Which run.
        run: RunId,
    },
    /// It is more than is read or made in one piece.
    #[error(
        "the {what} has more than the {limit} bytes that are read at once: fork it at an earlier position, or read \
         `messages` and `history` page by page"
    )]
    TooLarge {
        /// `conversation`, …
        what: &'static str,
        /// How many it may have.
        limit: usize,
    },
    /// The run is over.
    #[error("the run is {}: that cannot be changed any more", status.as_str())]
    InvalidState {
        /// How it ended.
        status: RunStatus,
    },
    /// The kind has no status for it.
    #[error("a {kind} cannot be archived: its kind has no status `archived`")]
    NotArchivable {
        /// Which kind.
        kind: String,
    },
    /// The kind does not wake.
    #[error("a {kind} is not woken by check-ins: a kind with `modes = [\"agent_check_in\"]` is")]
    NoCheckIns {
        /// Which kind.
        kind: String,
    },
    /// No kind of agent the user has writes feeds.
    #[error("this user has no agent that writes feeds: a kind with `modes = [\"feed_generation\"]` does")]
    NoFeedAgent,
    /// The agent that writes feeds is at work.
    #[error("{run} is open: its agent writes no feed meanwhile. Wait until it has ended, or cancel it")]
    FeedAgentBusy {
        /// Which run.
        run: RunId,
    },
    /// Too many messages of the user wait unread.
    #[error(
        "{pending} messages of this user wait to be read, and {limit} may: this one was not stored. Post it again \
         when `Retry-After` has passed, or cancel runs you no longer need"
    )]
    TooManyPending {
        /// How many wait, over all agentables of the user.
        pending: u32,
        /// How many may.
        limit: u32,
    },
    /// Too many streams are open.
    #[error(
        "{open} event streams are open here for {whose}, and {limit} may be: close some, or come back when \
         `Retry-After` has passed"
    )]
    TooManyStreams {
        /// How many are open.
        open: usize,
        /// `this tenant` or `all tenants`.
        whose: &'static str,
        /// How many may be.
        limit: usize,
    },
    /// Postgres does not answer, or the process is about to go.
    #[error("the service cannot answer at the moment; try again in a second")]
    Unavailable(#[source] Option<houston_store::Error>),
    /// Our fault.
    #[error("something went wrong here; the request id will help to find out what")]
    Internal(#[source] houston_store::Error),
}

impl ApiError {
    /// The stable name of the variant.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::NotFound { .. } => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::InvalidJson { .. } => "invalid_json",
            Self::InvalidRequest { .. } => "invalid_request",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyMissing => "body_missing",
            Self::MessageTooLarge { .. } => "message_too_large",
            Self::EmptyMessage => "empty_message",
            Self::InvalidCursor => "invalid_cursor",
            Self::InvalidPosition { .. } => "invalid_position",
            Self::InvalidIdempotencyKey => "invalid_idempotency_key",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::AlreadyExists { .. } => "already_exists",
            Self::NotCreatable { .. } => "not_creatable",
            Self::Full { .. } => "full",
            Self::DefaultAgent { .. } => "default_agent",
            Self::NoDefaultAgent { .. } => "no_default_agent",
            Self::InUse { .. } => "in_use",
            Self::StaleVersion { .. } => "stale_version",
            Self::UnreadableFiles { .. } => "unreadable_files",
            Self::RunInProgress { .. } => "run_in_progress",
            Self::RunOpen { .. } => "run_open",
            Self::TooLarge { .. } => "too_large",
            Self::InvalidState { .. } => "invalid_state",
            Self::NotArchivable { .. } => "not_archivable",
            Self::NoCheckIns { .. } => "no_check_ins",
            Self::NoFeedAgent => "no_feed_agent",
            Self::FeedAgentBusy { .. } => "run_in_progress",
            Self::TooManyPending { .. } => "too_many_pending",
            Self::TooManyStreams { .. } => "too_many_streams",
            Self::Unavailable(_) => "unavailable",
            Self::Internal(_) => "internal",
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::InvalidJson { .. } => StatusCode::BAD_REQUEST,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::BodyTooLarge { .. } | Self::MessageTooLarge { .. } | Self::TooLarge { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::BodyMissing => StatusCode::REQUEST_TIMEOUT,
            Self::InvalidRequest { .. }
            | Self::EmptyMessage
            | Self::InvalidCursor
            | Self::InvalidPosition { .. }
            | Self::InvalidIdempotencyKey
            | Self::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::AlreadyExists { .. }
            | Self::NotCreatable { .. }
            | Self::Full { .. }
            | Self::DefaultAgent { .. }
            | Self::NoDefaultAgent { .. }
            | Self::InUse { .. }
            | Self::StaleVersion { .. }
            | Self::UnreadableFiles { .. }
            | Self::RunInProgress { .. }
            | Self::RunOpen { .. }
            | Self::NotArchivable { .. }
            | Self::NoCheckIns { .. }
            | Self::NoFeedAgent
            | Self::FeedAgentBusy { .. }
            | Self::InvalidState { .. } => StatusCode::CONFLICT,
            Self::TooManyPending { .. } | Self::TooManyStreams { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// How many seconds to wait before the same may be accepted.
    pub(crate) fn retry_after(&self) -> Option<&'static str> {
        match self {
            Self::Unavailable(_) => Some("1"),
            // A reading takes a hundred messages, a run some seconds.
            Self::TooManyPending { .. } | Self::TooManyStreams { .. } => Some("5"),
            _ => None,
        }
    }

    /// The number that was passed, when one was.
    pub(crate) fn limit(&self) -> Option<u64> {
        match self {
            Self::TooManyPending { limit, .. } => Some(u64::from(*limit)),
            Self::TooManyStreams { limit, .. } => u64::try_from(*limit).ok(),
            Self::Full { limit, .. } => u64::try_from(*limit).ok(),
            _ => None,
        }
    }

    /// A query parameter that cannot be used.
    pub(crate) fn parameter(name: &str, detail: impl Into<String>) -> Self {
        let fault = Fault { pointer: None, parameter: Some(name.to_owned()), detail: detail.into() };
        Self::InvalidRequest { errors: vec![fault] }
    }

    /// One field of the body that cannot be used.
    pub(crate) fn field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::InvalidRequest { errors: vec![Fault::at(pointer, detail)] }
    }
}

impl From<houston_store::Error> for ApiError {
    fn from(error: houston_store::Error) -> Self {
        match error {
            houston_store::Error::NotFound { what } => Self::NotFound { what },
            houston_store::Error::Full { what, limit } => Self::Full { what, limit },
            houston_store::Error::RunOpen { run } => Self::RunInProgress { run },
            houston_store::Error::TooLarge { what, limit } => Self::TooLarge { what, limit },
            error @ (houston_store::Error::NoSuchPosition { .. }
            | houston_store::Error::InsideTurn { .. }) => Self::field("/position", error.to_string()),
            houston_store::Error::TooManyPending { pending, limit } => {
                Self::TooManyPending { pending, limit }
            }
            error if error.is_transient() => Self::Unavailable(Some(error)),
            error => Self::Internal(error),
        }
    }
}

impl From<Unexplained> for ApiError {
    fn from(error: Unexplained) -> Self {
        match error {
            Unexplained::Store(error) => error.into(),
            error @ Unexplained::SetUp(_) => {
                tracing::error!(%error, "cannot say what the engine would do");
                Self::Unavailable(None)
            }
        }
    }
}

impl IntoResponse for ApiError {
    /// The status only; the envelope around all endpoints writes the body, since it knows the request's id.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(Refused::from(self));
        response
    }
}
