//! The errors of the API: one variant of [`ApiError`] for each way a request can fail, each with a stable `code`.
//!
//! The `Display` text of a variant is the problem's `detail`: what is wrong, what is allowed, what to do.
//! [`ResponseError`] carries it to `envelope`, which writes it as RFC 9457 problem details.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use houston_domain::id::{QuestionId, RunId};
use houston_domain::question::QuestionState;
use houston_domain::rate::Quota;
use houston_domain::run::RunStatus;
use houston_domain::scope::{Scope, Scopes};
use houston_domain::setting::WrongSetting;
use houston_protocol::problem::{FieldError, Problem, ProblemCode};
use houston_store::{Error, FolderError};
use serde_json::Value;

use crate::wiring::ExplainError;

/// Why a request failed. Rendered as `application/problem+json`:
///
/// ```json
/// {"type": "urn:houston:problem:full", "title": "Conflict", "status": 409, "code": "full", "limit": 50,
///  "detail": "limit reached: at most 50 custom instructions of a user; delete one first",
///  "instance": "/v1/users/user_…/custom-instructions", "request_id": "req_…"}
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The request has no API key, or one that does not exist or was revoked.
    #[error("missing or invalid API key; send a valid one as `Authorization: Bearer hou_…`")]
    Unauthorized,
    /// The bearer token has the form of a JWT, and is not accepted.
    #[error("the JWT is not accepted: {0}")]
    InvalidJwt(#[source] houston_domain::jwt::JwtError),
    /// What was posted to an inbound hook is not signed with its secret.
    #[error("the signature is not accepted (Standard Webhooks): {0}")]
    InvalidSignature(#[source] houston_web::webhook::WebhookError),
    /// The keys of the JWT's issuer were never read, or not for a day.
    #[error("the keys of the JWT's issuer cannot be read; try again in a few seconds")]
    NoIssuerKeys,
    /// The key lacks a scope.
    #[error(
        "this key has no scope `{needed}`, only `{scopes}`; use a key with it (`houston key create --scope {needed}`)"
    )]
    MissingScope {
        /// The scope that the request needs.
        needed: Scope,
        /// Those of the key.
        scopes: Scopes,
    },
    /// The key is bound to one user, or to some agentables of one.
    #[error(
        "this key is bound to one user or some of its agentables; use a key of the tenant (`houston key create`)"
    )]
    BoundKey,
    /// What is never shown to users was asked for with a client token or a JWT.
    #[error(
        "client tokens and JWTs do not read this: it is never shown to users; a backend reads it with an API key"
    )]
    NeverShown,
    /// The address sent too many wrong keys, or too many unknown keys are waiting to be looked up.
    #[error("too many unknown API keys; try again after the seconds in `Retry-After`")]
    TooManyKeys,
    /// Such a resource (`goal`, `message`, `route`, …) does not exist, or belongs to another tenant.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The route exists, but not with this method.
    #[error("method not allowed on this route; the `Allow` header lists the allowed methods")]
    MethodNotAllowed,
    /// The body is not JSON.
    #[error("the body is not valid JSON: {reason}, at line {line}, column {column}")]
    InvalidJson {
        /// Line of the syntax error, from 1.
        line: usize,
        /// Column of the syntax error, from 1.
        column: usize,
        /// The parser's message, without the position.
        reason: String,
    },
    /// These fields of the body or parameters of the query are missing, unknown or have an invalid value.
    #[error("the request is invalid; `errors` names each field or parameter and the reason")]
    InvalidRequest(Vec<FieldError>),
    /// The body has another media type than this one, which the endpoint reads.
    #[error("unsupported media type; send the body as `Content-Type: {0}`")]
    UnsupportedMediaType(&'static str),
    /// The body has more than so many bytes.
    #[error("the body is too large; at most {0} bytes are allowed")]
    BodyTooLarge(usize),
    /// The body did not arrive in time (30 s; for a file more).
    #[error("the body did not arrive completely in time; send the request again")]
    BodyMissing,
    /// The body is not framed as HTTP says, or the connection broke while it was sent.
    #[error("the body is broken: its chunks, or its length, are not as HTTP says; send the request again")]
    BrokenBody,
    /// The message is too long.
    #[error("the message is too large: it has {bytes} bytes of UTF-8; at most {limit} are allowed")]
    MessageTooLarge {
        /// Length of the message in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        limit: usize,
    },
    /// The message has no characters except white space.
    #[error("the message is empty; `content` needs at least one character that is not white space")]
    EmptyMessage,
    /// The cursor was not returned by this list.
    #[error("invalid cursor; use `next_cursor` of the previous page of this list")]
    InvalidCursor,
    /// The stream position that the client sent, cut to 80 characters, cannot be parsed.
    #[error("`{0}` is not a stream position; use the `id` of the last event you received, or 0 for all")]
    InvalidPosition(String),
    /// The idempotency key is empty, too long or not printable.
    #[error("invalid Idempotency-Key; use 1 to 255 printable ASCII characters")]
    InvalidIdempotencyKey,
    /// Events before this position were deleted by age, and the request asks for some of them.
    #[error("{}", expired(*.0))]
    EventLogExpired(i64),
    /// The idempotency key was used before, for another request.
    #[error("this Idempotency-Key was already used for another request; use a new key")]
    IdempotencyKeyReused,
    /// A field that must be unique has a value that another resource has.
    #[error("{} with this {field} already exists{}", with_article(what),
            existing.as_ref().map(|id| format!(": {id}")).unwrap_or_default())]
    AlreadyExists {
        /// The kind of resource: `user`, `agent`, …
        what: &'static str,
        /// The field that must be unique.
        field: &'static str,
        /// The id of the existing resource; `None` if it was deleted in the meantime.
        existing: Option<String>,
    },
    /// Agentables of this kind cannot be created through the API.
    #[error("{} cannot be created through the API; {}", with_article(kind),
            if *made_with_user { "it is created with its user" } else { "only agents create it" })]
    NotCreatable {
        /// Name of the kind.
        kind: String,
        /// Whether agentables of the kind are created with their user, not by agents.
        made_with_user: bool,
    },
    /// The maximum number of such items exists.
    #[error("limit reached: at most {limit} {what}; delete one first")]
    Full {
        /// Items and their owner: `notes of an agentable`, …
        what: &'static str,
        /// Maximum number of items.
        limit: i64,
    },
    /// What only its code and its text tell from other refusals: what is not possible, why, and what to do instead.
    #[error("{1}")]
    Refused(ProblemCode, String),
    /// The resource was changed since the client read it, and has this version now.
    #[error("stale version: the current version is {0}; read the resource again and repeat the change")]
    StaleVersion(i64),
    /// The files of `jobs/agents` cannot be read: file, position and what is allowed there.
    #[error("jobs/agents cannot be read, and nothing was changed: {0}")]
    UnreadableFiles(String),
    /// The MCP server does not list its tools.
    #[error("the MCP server `{name}` did not list its tools: {reason}")]
    McpServerFailed {
        /// Its name.
        name: String,
        /// Why, without its secrets.
        reason: String,
    },
    /// This run is open, and `double_texting` is `reject`.
    #[error(
        "{0} is open and `double_texting` is `reject`, so the message was not stored; wait until the run has ended, \
         cancel it, or post with `enqueue`, `interrupt` or `rollback`"
    )]
    MessageRejected(RunId),
    /// The operation is not possible while this run is open.
    #[error("{0} is open; wait until it has ended, or cancel it, then try again")]
    RunInProgress(RunId),
    /// The question is closed.
    #[error("{id} is {}{}, so this answer does not count", state.as_str(), decided(answer.as_ref()))]
    QuestionClosed {
        /// The question.
        id: QuestionId,
        /// What closed it.
        state: QuestionState,
        /// The answer, if it was answered.
        answer: Option<Value>,
    },
    /// The document is larger than exports, imports and forks may be.
    #[error(
        "the {what} is too large; at most {limit} bytes are allowed. Fork it at an earlier position, or read \
         `messages` and `history` page by page"
    )]
    TooLarge {
        /// The kind of document: `conversation`, …
        what: &'static str,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// The run has ended with this status, and cannot be cancelled or changed.
    #[error("the run has already ended as `{}` and cannot be cancelled or changed", .0.as_str())]
    InvalidState(RunStatus),
    /// The agentable with this id is archived, so check-ins would not wake it.
    #[error(
        "{0} is archived, and check-ins do not wake archived agentables; unarchive it first (`unarchive`), or post a \
         message, which is answered without that"
    )]
    Archived(String),
    /// The agent that writes feeds has this run open.
    #[error(
        "the agent that writes feeds is busy with {0}; wait until the run has ended, or cancel it, then try again"
    )]
    FeedAgentBusy(RunId),
    /// Too many messages of the user are unread.
    #[error(
        "too many unread messages: this user has {pending} messages waiting, at most {limit} are allowed, so this one \
         was not stored; post it again after the seconds in `Retry-After`, or cancel runs you no longer need"
    )]
    TooManyPending {
        /// Unread messages over all agentables of the user.
        pending: u32,
        /// Maximum number of unread messages.
        limit: u32,
    },
    /// The user, or the key, has used up a rate limit.
    #[error("{}", rate_limited(policy, *quota))]
    RateLimited {
        /// The name of the limit: `requests`, `key` or `tokens`.
        policy: &'static str,
        /// The limit.
        quota: Quota,
        /// How long until the request would be accepted.
        retry_after: Duration,
    },
    /// Too many event streams are open.
    #[error(
        "too many event streams: {open} of {whose} are open, at most {limit} are allowed; close some, or try again \
         after the seconds in `Retry-After`"
    )]
    TooManyStreams {
        /// Open streams of this process.
        open: usize,
        /// `this tenant` or `all tenants`.
        whose: &'static str,
        /// Maximum number of open streams.
        limit: usize,
    },
    /// More bytes of conversations than this are being exported, imported and forked.
    #[error(
        "too many exports, imports and forks at once: together they may hold {0} bytes in memory, those of one \
         tenant half of that; try again after the seconds in `Retry-After`"
    )]
    TooManyDocuments(usize),
    /// The request was not answered in time, because Postgres is slow or does not answer.
    #[error("{}", timed_out(*within, *changes))]
    TimedOut {
        /// The deadline of the request.
        within: Duration,
        /// Whether the request was to change something.
        changes: bool,
    },
    /// Postgres is unreachable, or the process is shutting down.
    #[error("the service is temporarily unavailable; try again in a second")]
    Unavailable(#[source] Option<Error>),
    /// An unexpected error of the server.
    #[error("internal error; report the request id to the operator, whose log has the cause")]
    Internal(#[source] Error),
}

/// The result of most functions here.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// What the store has; `None` if there is no such thing.
pub(crate) fn if_found<T>(read: houston_store::Result<T>) -> Result<Option<T>> {
    match read {
        Err(Error::NotFound { .. }) => Ok(None),
        read => Ok(read.map(Some)?),
    }
}

impl ApiError {
    /// The stable code of the variant, e.g. `not_found`.
    pub fn code(&self) -> ProblemCode {
        /// The code of the error: of the variants before the `;` the one with the same name, of the others what is beside them.
        macro_rules! code {
            ($($name:ident)+; $($variants:pat => $code:expr,)+) => {
                match self {
                    $(Self::$name { .. } => ProblemCode::$name,)+
                    $($variants => $code,)+
                }
            };
        }
        code! {
            Unauthorized InvalidSignature TooManyKeys NotFound MethodNotAllowed InvalidJson InvalidRequest
            UnsupportedMediaType BodyTooLarge BodyMissing BrokenBody MessageTooLarge EmptyMessage
            InvalidCursor InvalidPosition EventLogExpired InvalidIdempotencyKey IdempotencyKeyReused
            AlreadyExists NotCreatable Full StaleVersion UnreadableFiles McpServerFailed QuestionClosed
            TooLarge InvalidState Archived TooManyPending RateLimited TooManyStreams TooManyDocuments
            TimedOut Unavailable Internal RunInProgress;
            Self::InvalidJwt(_) => ProblemCode::Unauthorized,
            Self::NoIssuerKeys => ProblemCode::Unavailable,
            Self::MissingScope { .. } | Self::BoundKey | Self::NeverShown => ProblemCode::Forbidden,
            Self::Refused(code, _) => *code,
            Self::MessageRejected(_) | Self::FeedAgentBusy(_) => ProblemCode::RunInProgress,
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound { what } => Self::NotFound(what),
            Error::Full { what, limit } => Self::Full { what, limit },
            Error::RunInProgress { run } => Self::MessageRejected(run),
            Error::EventsExpired { from } => Self::EventLogExpired(from),
            Error::TooLarge { what, limit } => Self::TooLarge { what, limit },
            Error::NoSuchPosition { .. } | Error::InsideTurn { .. } => {
                Self::field("/position", error.to_string())
            }
            Error::Folder(FolderError::Obstacle(obstacle)) => Self::field("/path", obstacle.to_string()),
            Error::Folder(_) | Error::Objects(_) | Error::NoObjects => Self::Unavailable(Some(error)),
            Error::TooManyPending { pending, limit } => Self::TooManyPending { pending, limit },
            error if error.is_transient() => Self::Unavailable(Some(error)),
            error => Self::Internal(error),
        }
    }
}

/// A value of a request that is not allowed, where its pointer says. One of a part of the request is put in its place with
/// [`WrongSetting::below`] first.
impl From<WrongSetting> for ApiError {
    fn from(WrongSetting { pointer, reason }: WrongSetting) -> Self {
        Self::field(&pointer, reason)
    }
}

impl From<ExplainError> for ApiError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::Store(error) => error.into(),
            error @ ExplainError::SetUp(_) => {
                tracing::error!(%error, "cannot set up the agent type to explain its prompt or tools");
                Self::Unavailable(None)
            }
        }
    }
}

impl IntoResponse for ApiError {
    /// Sets only the status; `envelope` writes the body, because it knows the request id.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(ResponseError::from(self));
        response
    }
}

impl ApiError {
    /// The HTTP status that belongs to the code.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Converts an error of the store; a value of this field that another resource has becomes [`Self::AlreadyExists`].
    pub(crate) fn taken(field: &'static str) -> impl FnOnce(Error) -> Self {
        move |error| match error {
            Error::Exists { what, existing } => Self::AlreadyExists { what, field, existing },
            error => error.into(),
        }
    }

    /// [`Self::InvalidRequest`] for one query parameter.
    pub(crate) fn parameter(name: &str, detail: impl Into<String>) -> Self {
        Self::InvalidRequest(vec![FieldError::parameter(name, detail)])
    }

    /// [`Self::InvalidRequest`] for one field of the body, by its JSON Pointer.
    pub(crate) fn field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::InvalidRequest(vec![FieldError::at(pointer, detail)])
    }
}

/// `a goal`, `an agent`.
pub(crate) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// The detail of a request for events that were deleted by age: those before `from`.
fn expired(from: i64) -> String {
    format!(
        "events of this agentable before position {from} were deleted by age (`retention` in jobs/health_monitor.toml); read its \
         `messages`, then stream without a position, or with `after={}` for all events that are kept",
        from - 1
    )
}

/// ` with <answer>`, of a question that was answered.
fn decided(answer: Option<&Value>) -> String {
    answer.map_or_else(String::new, |answer| format!(" with {answer}"))
}

/// The detail of a request that was not answered in time.
fn timed_out(within: Duration, changes: bool) -> String {
    let seconds = within.as_secs();
    let advice = if changes {
        "the change may have been made all the same: send the request again with its Idempotency-Key, which applies it \
         once; without a key, check first"
    } else {
        "try again in a second"
    };
    format!("no answer within {seconds} s, because the database is slow or does not respond; {advice}")
}

/// The detail of a request beyond a rate limit.
fn rate_limited(policy: &str, Quota { quota, window_s }: Quota) -> String {
    let what = match policy {
        "requests" => "requests of this user that start work",
        "key" => "requests with this API key that start work",
        _ => "tokens of this user's runs",
    };
    format!(
        "rate limit `{policy}` exceeded: at most {quota} {what} in {window_s} s, and nothing was done; send the request again after the \
         seconds in `Retry-After`"
    )
}

/// The problem type of exceeded quotas in IANA's registry.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The error of a response, carried in its extensions to `envelope`, which writes the body.
#[derive(Debug, Clone)]
pub(crate) struct ResponseError {
    error: Arc<ApiError>,
    /// The body in the words of another protocol, with its media type.
    body: Option<(Bytes, &'static str)>,
}

impl From<ApiError> for ResponseError {
    fn from(error: ApiError) -> Self {
        Self { error: Arc::new(error), body: None }
    }
}

impl ResponseError {
    pub(crate) fn error(&self) -> &ApiError {
        &self.error
    }

    /// The same error with a body that is no problem, on an endpoint of another protocol.
    pub(crate) fn with_body(self, body: impl Into<Bytes>, content_type: &'static str) -> Self {
        Self { body: Some((body.into(), content_type)), ..self }
    }

    /// Writes the problem as body and the headers that belong to it.
    pub(crate) fn write(&self, instance: &str, request_id: &str, response: &mut Response<Body>) {
        let error = self.error();
        let mut problem = Problem {
            kind: format!("urn:houston:problem:{}", error.code()).into(),
            title: error.status().canonical_reason().unwrap_or("Error").into(),
            status: error.status().as_u16(),
            detail: error.to_string().into(),
            instance: instance.into(),
            code: error.code(),
            request_id: request_id.into(),
            limit: error.limit(),
            ..Problem::default()
        };
        match error {
            ApiError::InvalidState(status) => problem.current_status = Some(*status),
            ApiError::MessageRejected(run) | ApiError::RunInProgress(run) | ApiError::FeedAgentBusy(run) => {
                problem.run_id = Some(*run)
            }
            ApiError::AlreadyExists { existing, .. } => {
                problem.existing_id = existing.as_deref().map(Cow::Borrowed);
            }
            ApiError::RateLimited { policy, retry_after, .. } => {
                problem.kind = QUOTA_EXCEEDED.into();
                problem.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
                problem.violated_policies = vec![Cow::Borrowed(*policy)].into();
            }
            ApiError::InvalidRequest(errors) => problem.errors = errors.into(),
            _ => {}
        }
        // Serialising strings and numbers cannot fail.
        let own = || (serde_json::to_vec(&problem).unwrap_or_default().into(), "application/problem+json");
        let (body, content_type) = self.body.clone().unwrap_or_else(own);
        *response.body_mut() = Body::from(body);
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let challenge = match error {
            ApiError::Unauthorized => Some("Bearer".to_owned()),
            ApiError::InvalidJwt(_) => Some("Bearer error=\"invalid_token\"".to_owned()),
            ApiError::MissingScope { needed, .. } => {
                Some(format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\""))
            }
            _ => None,
        };
        if let Some(Ok(challenge)) = challenge.map(HeaderValue::try_from) {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = error.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
    }
}

impl ApiError {
    /// `Retry-After` in seconds.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after, .. } => Some(whole_seconds(*retry_after).max(1)),
            Self::TooManyKeys => Some(60),
            Self::NoIssuerKeys => Some(5),
            Self::Unavailable(_) | Self::TimedOut { .. } => Some(1),
            // A run reads up to a hundred messages at once and takes some seconds.
            Self::TooManyPending { .. } | Self::TooManyStreams { .. } | Self::TooManyDocuments(_) => Some(5),
            _ => None,
        }
    }

    /// The exceeded limit, if the error is about one.
    fn limit(&self) -> Option<u64> {
        match self {
            Self::RateLimited { quota, .. } => Some(u64::from(quota.quota)),
            Self::TooManyPending { limit, .. } => Some(u64::from(*limit)),
            Self::TooManyStreams { limit, .. } | Self::TooManyDocuments(limit) => u64::try_from(*limit).ok(),
            Self::Full { limit, .. } => u64::try_from(*limit).ok(),
            _ => None,
        }
    }
}

/// Seconds, rounded up.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
