//! The body of every error response: RFC 9457, `application/problem+json`; and the codes of all of them.

use std::borrow::Cow;
use std::fmt;

use houston_domain::id::RunId;
use houston_domain::run::RunStatus;
use serde::{Deserialize, Serialize};

/// Why a request was refused.
///
/// ```json
/// {
///   "type": "urn:houston:problem:invalid_request",
///   "title": "Unprocessable Entity",
///   "status": 422,
///   "detail": "the request does not have the expected shape",
///   "instance": "/v1/users",
///   "code": "invalid_request",
///   "request_id": "req_0190…",
///   "errors": [{"pointer": "/name", "detail": "missing field `name`"}]
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem<'a> {
    /// `urn:houston:problem:` and the code; of `rate_limited` the type that is registered for it.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    /// The name of the HTTP status.
    pub title: Cow<'a, str>,
    /// The HTTP status.
    pub status: u16,
    /// For people: what is wrong, what is allowed, and what to do.
    pub detail: Cow<'a, str>,
    /// The path of the request.
    pub instance: Cow<'a, str>,
    /// For programs: what is wrong.
    pub code: ProblemCode,
    /// The id of the request in the log and in the header `X-Request-Id`.
    pub request_id: Cow<'a, str>,
    /// With `invalid_state`: how the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_status: Option<RunStatus>,
    /// With `run_in_progress`: the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// With `already_exists`: the id of the existing resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_id: Option<Cow<'a, str>>,
    /// The limit that was exceeded, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// With `rate_limited`: after how many milliseconds to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// With `rate_limited`: the limits that are exceeded, by their names in `RateLimit-Policy`.
    #[serde(default, rename = "violated-policies", skip_serializing_if = "<[Cow<'_, str>]>::is_empty")]
    pub violated_policies: Cow<'a, [Cow<'a, str>]>,
    /// With `invalid_request`: the errors and their positions.
    #[serde(default, skip_serializing_if = "<[FieldError]>::is_empty")]
    pub errors: Cow<'a, [FieldError]>,
}

impl fmt::Display for Problem<'_> {
    /// What is wrong, and where.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        for error in self.errors.iter() {
            let at = error.pointer.as_deref().or(error.parameter.as_deref()).unwrap_or_default();
            write!(f, "; {at}: {}", error.detail)?;
        }
        Ok(())
    }
}

/// One error of a request: `{"pointer": "/name", "detail": "must be one line"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Its position in the body: a JSON Pointer, as in `/agents/0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of the query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// What is wrong.
    pub detail: String,
}

impl FieldError {
    /// An error at this JSON Pointer of the body.
    pub fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), parameter: None, detail: detail.into() }
    }

    /// An error of a query parameter.
    pub fn parameter(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: None, parameter: Some(name.into()), detail: detail.into() }
    }
}

macro_rules! problem_codes {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $status:literal $name:literal;)*) => {
        /// Why a request failed: the `code` of a problem, as in `"not_found"`. The names are stable.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ProblemCode {
            $($(#[doc = $meaning])+ #[doc = concat!("HTTP ", $status, ".")] #[serde(rename = $name)] $variant,)*
            /// A code of a newer server. Only read, never written.
            #[default]
            #[serde(other, rename = "unknown")]
            Unknown,
        }

        impl ProblemCode {
            /// All codes except `Unknown`.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Unknown => "unknown" }
            }

            /// The HTTP status of the response.
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* Self::Unknown => 500 }
            }

            /// The meaning of the code, in one or two sentences.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim_ascii(),)* Self::Unknown => "" }
            }
        }
    };
}

problem_codes! {
    /// The body is not valid JSON.
    InvalidJson = 400 "invalid_json";
    /// The body is not framed as HTTP says, for instance by chunks, or broke off.
    BrokenBody = 400 "broken_body";
    /// The request has no API key, or one that is not valid.
    Unauthorized = 401 "unauthorized";
    /// What was posted to an inbound hook has no signature that its secret has made, or an old one.
    InvalidSignature = 401 "invalid_signature";
    /// The API key is valid, but may not do this: it lacks a scope, or is bound to one user.
    Forbidden = 403 "forbidden";
    /// There is no such resource that the caller may see, or no such route.
    NotFound = 404 "not_found";
    /// The route has other methods.
    MethodNotAllowed = 405 "method_not_allowed";
    /// The body did not arrive in time.
    BodyMissing = 408 "body_missing";
    /// A resource with this name exists already.
    AlreadyExists = 409 "already_exists";
    /// Clients cannot create this kind of agentable.
    NotCreatable = 409 "not_creatable";
    /// The limit of such resources is reached: delete one first.
    Full = 409 "full";
    /// The agent is the default agent of its kind and cannot be deleted.
    DefaultAgent = 409 "default_agent";
    /// The agent is not a default agent and cannot be reset.
    NoDefaultAgent = 409 "no_default_agent";
    /// Another resource uses it: change that one first.
    InUse = 409 "in_use";
    /// It was changed after the given version.
    StaleVersion = 409 "stale_version";
    /// The files of `jobs/agents` cannot be used; nothing was changed.
    UnreadableFiles = 409 "unreadable_files";
    /// A run is open and must end first.
    RunInProgress = 409 "run_in_progress";
    /// The run is over and can no longer be changed.
    InvalidState = 409 "invalid_state";
    /// The step of a plan has another status than the request needs.
    InvalidStepStatus = 409 "invalid_step_status";
    /// The question was answered otherwise, has expired, or is not asked any more.
    QuestionClosed = 409 "question_closed";
    /// The MCP server lists another definition of the tool than the one to approve.
    ToolChanged = 409 "tool_changed";
    /// The kind has no status `archived`.
    NotArchivable = 409 "not_archivable";
    /// The agentable is archived, so check-ins do not wake it.
    Archived = 409 "archived";
    /// The kind does not support check-ins.
    NoCheckIns = 409 "no_check_ins";
    /// The user has no agent that writes feeds.
    NoFeedAgent = 409 "no_feed_agent";
    /// Some of the events that were asked for were deleted by age.
    EventLogExpired = 410 "event_log_expired";
    /// The body is longer than allowed.
    BodyTooLarge = 413 "body_too_large";
    /// The message is longer than allowed.
    MessageTooLarge = 413 "message_too_large";
    /// The conversation is larger than the limit for documents.
    TooLarge = 413 "too_large";
    /// The body is not sent as `application/json`.
    UnsupportedMediaType = 415 "unsupported_media_type";
    /// The body or a query parameter does not have the expected shape; `errors` says where.
    InvalidRequest = 422 "invalid_request";
    /// The message is empty.
    EmptyMessage = 422 "empty_message";
    /// The cursor was not given out by this list.
    InvalidCursor = 422 "invalid_cursor";
    /// The stream position was not given out by a stream.
    InvalidPosition = 422 "invalid_position";
    /// The idempotency key is not 1 to 255 visible ASCII characters.
    InvalidIdempotencyKey = 422 "invalid_idempotency_key";
    /// The idempotency key was used before, for another request.
    IdempotencyKeyReused = 422 "idempotency_key_reused";
    /// Too many messages of the user are unread; `Retry-After` says when to try again.
    TooManyPending = 429 "too_many_pending";
    /// The user or the API key has used up a rate limit, which `violated-policies` names; `Retry-After` says when to try again.
    RateLimited = 429 "rate_limited";
    /// Too many event streams are open; `Retry-After` says when to try again.
    TooManyStreams = 429 "too_many_streams";
    /// Too many wrong API keys were sent from the address; `Retry-After` says when to try again.
    TooManyKeys = 429 "too_many_keys";
    /// An error inside Houston; the log has it under the request id.
    Internal = 500 "internal";
    /// The MCP server cannot be reached, or does not list its tools.
    McpServerFailed = 502 "mcp_server_failed";
    /// Houston cannot answer at the moment; `Retry-After` says when to try again.
    Unavailable = 503 "unavailable";
    /// The request was not answered in time, and what was asked for may have happened; `Retry-After` says when to try
    /// again.
    TimedOut = 503 "timed_out";
    /// Too many conversations are exported, imported and forked; `Retry-After` says when to try again.
    TooManyDocuments = 503 "too_many_documents";
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the OpenAPI document describes the codes.
#[cfg(feature = "openapi")]
mod documented {
    use houston_domain::schema::one_of;
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::Schema;
    use utoipa::{PartialSchema, ToSchema};

    use super::ProblemCode;

    impl PartialSchema for ProblemCode {
        fn schema() -> RefOr<Schema> {
            let meanings =
                Self::ALL.iter().map(|code| format!("- `{code}` ({}): {}", code.status(), code.meaning()));
            one_of(Self::ALL.iter().map(|code| code.as_str()))
                .description(Some(meanings.collect::<Vec<_>>().join("\n")))
                .into()
        }
    }

    impl ToSchema for ProblemCode {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_by_name() {
        for code in ProblemCode::ALL {
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
            assert_eq!(serde_json::from_str::<ProblemCode>(&json).unwrap(), *code);
            assert!((400..600).contains(&code.status()) && code.meaning().ends_with(|c| c != ' '), "{code}");
        }
        assert_eq!(serde_json::from_str::<ProblemCode>("\"brand_new\"").unwrap(), ProblemCode::Unknown);
    }
}
