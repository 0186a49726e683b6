//! Why a request was refused: one enum, one stable `code` for each variant.

mod convert;

use std::time::Duration;

use axum::http::StatusCode;
use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use houston_protocol::problem::{FieldError, ProblemCode};

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No key, or none that is known.
    #[error("this needs a valid API key: `Authorization: Bearer hou_…`")]
    Unauthorized,
    /// Too many wrong keys came from there.
    #[error("too many unknown API keys were sent from this address: come back when `Retry-After` has passed")]
    TooManyKeys,
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
        errors: Vec<FieldError>,
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
    #[error("{} with this {field} exists already{}", with_article(what),
            existing.as_ref().map(|id| format!(": {id}")).unwrap_or_default())]
    AlreadyExists {
        /// `user`, …
        what: &'static str,
        /// Which of its fields must be unique.
        field: &'static str,
        /// The id of the one that is there; none when it was deleted an instant later.
        existing: Option<String>,
    },
    /// Nobody makes one of this kind by asking for it.
    #[error("{} is not made through the API: {}", with_article(kind), if *made_with_user { "it is made with its user" } else { "an agent begins it" })]
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
    MessageRejected {
        /// Which run.
        run: RunId,
    },
    /// A run is open, and what was asked for must not happen to it.
    #[error("{run} is open: wait until it has ended, or cancel it, and ask again")]
    RunInProgress {
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
    #[error("{} cannot be archived: its kind has no status `archived`", with_article(kind))]
    NotArchivable {
        /// Which kind.
        kind: String,
    },
    /// It is archived, and check-ins would wake it.
    #[error(
        "{id} is archived: a check-in would never wake it. Take it out with `unarchive`, or post a message, which is \
         answered all the same"
    )]
    Archived {
        /// Which agentable.
        id: String,
    },
    /// The kind does not wake.
    #[error(
        "{} is not woken by check-ins: a kind with `modes = [\"agent_check_in\"]` is",
        with_article(kind)
    )]
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
    /// Too many conversations are exported, imported and forked.
    #[error(
        "whole conversations of {limit} bytes may be in memory at once, of one tenant half, and others are: come back \
         when `Retry-After` has passed"
    )]
    TooManyDocuments {
        /// How many bytes may be.
        limit: usize,
    },
    /// The request was not answered in time: Postgres hangs.
    #[error("{}", timed_out(*within, *changes))]
    TimedOut {
        /// How long it had.
        within: Duration,
        /// Whether it was to change something.
        changes: bool,
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
    pub fn code(&self) -> ProblemCode {
        match self {
            Self::Unauthorized => ProblemCode::Unauthorized,
            Self::TooManyKeys => ProblemCode::TooManyKeys,
            Self::NotFound { .. } => ProblemCode::NotFound,
            Self::MethodNotAllowed => ProblemCode::MethodNotAllowed,
            Self::InvalidJson { .. } => ProblemCode::InvalidJson,
            Self::InvalidRequest { .. } => ProblemCode::InvalidRequest,
            Self::UnsupportedMediaType => ProblemCode::UnsupportedMediaType,
            Self::BodyTooLarge { .. } => ProblemCode::BodyTooLarge,
            Self::BodyMissing => ProblemCode::BodyMissing,
            Self::MessageTooLarge { .. } => ProblemCode::MessageTooLarge,
            Self::EmptyMessage => ProblemCode::EmptyMessage,
            Self::InvalidCursor => ProblemCode::InvalidCursor,
            Self::InvalidPosition { .. } => ProblemCode::InvalidPosition,
            Self::InvalidIdempotencyKey => ProblemCode::InvalidIdempotencyKey,
            Self::IdempotencyKeyReused => ProblemCode::IdempotencyKeyReused,
            Self::AlreadyExists { .. } => ProblemCode::AlreadyExists,
            Self::NotCreatable { .. } => ProblemCode::NotCreatable,
            Self::Full { .. } => ProblemCode::Full,
            Self::DefaultAgent { .. } => ProblemCode::DefaultAgent,
            Self::NoDefaultAgent { .. } => ProblemCode::NoDefaultAgent,
            Self::InUse { .. } => ProblemCode::InUse,
            Self::StaleVersion { .. } => ProblemCode::StaleVersion,
            Self::UnreadableFiles { .. } => ProblemCode::UnreadableFiles,
            Self::MessageRejected { .. } => ProblemCode::RunInProgress,
            Self::RunInProgress { .. } => ProblemCode::RunInProgress,
            Self::TooLarge { .. } => ProblemCode::TooLarge,
            Self::InvalidState { .. } => ProblemCode::InvalidState,
            Self::NotArchivable { .. } => ProblemCode::NotArchivable,
            Self::Archived { .. } => ProblemCode::Archived,
            Self::NoCheckIns { .. } => ProblemCode::NoCheckIns,
            Self::NoFeedAgent => ProblemCode::NoFeedAgent,
            Self::FeedAgentBusy { .. } => ProblemCode::RunInProgress,
            Self::TooManyPending { .. } => ProblemCode::TooManyPending,
            Self::TooManyStreams { .. } => ProblemCode::TooManyStreams,
            Self::TooManyDocuments { .. } => ProblemCode::TooManyDocuments,
            Self::TimedOut { .. } => ProblemCode::TimedOut,
            Self::Unavailable(_) => ProblemCode::Unavailable,
            Self::Internal(_) => ProblemCode::Internal,
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// A query parameter that cannot be used.
    pub(crate) fn parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::InvalidRequest { errors: vec![FieldError::parameter(name, detail)] }
    }

    /// One field of the body that cannot be used.
    pub(crate) fn field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::InvalidRequest { errors: vec![FieldError::at(pointer, detail)] }
    }
}

/// `a goal`, `an agent`.
fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {noun}")
}

fn timed_out(within: Duration, changes: bool) -> String {
    let seconds = within.as_secs();
    let told = format!("there was no answer within {seconds} s: the database hangs, or is overloaded");
    if changes {
        told + ". What was asked for may have happened all the same: send the request again with its Idempotency-Key, \
                and it happens once; without one, look first"
    } else {
        told + "; try again in a second"
    }
}
