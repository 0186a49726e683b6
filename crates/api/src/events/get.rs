//! `GET /v1/{kinds}/{id}/events`: opens an event stream at the client's position, or at the beginning of the open or
//! latest run.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::events::open::open;
use crate::events::position::Position;
use crate::query::Query;
use crate::state::App;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    pub(crate) after: Option<String>,
    #[serde(default)]
    pub(crate) follow: bool,
    #[serde(default)]
    pub(crate) interrupts: bool,
    /// A client token, which authentication has read.
    #[serde(default, rename = "access_token")]
    _token: serde::de::IgnoredAny,
}

impl Options {
    /// From the open or latest run on, with interrupts.
    pub(crate) fn with_interrupts() -> Self {
        Self { interrupts: true, ..Self::default() }
    }
}

endpoint! {
    GET: get "/v1/{kinds}/{id}/events" => get,
    tag = "events",
    operation_id = "stream_events",
    summary = "Stream the events of an agentable as server-sent events.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable."),
        ("after" = Option<String>, Query, description = "The `id` of the last event the client has; 0 for all events. By default the stream begins with the open or latest run, or with the first event of it that is kept."),
        ("follow" = Option<bool>, Query, description = "Whether the stream stays open between runs; false by default."),
        ("interrupts" = Option<bool>, Query, description = "Whether the run ends for this stream with the outcome `interrupt` while it waits for a person; false by default."),
        ("access_token" = Option<String>, Query, description = "A client token, for an `EventSource`, which cannot send headers. An API key is not accepted here."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it.")
    ),
    responses(
        (status = 200, description = "AG-UI events, each with an `id` from which the stream can be resumed.", body = houston_protocol::agui::Event, content_type = "text/event-stream"),
        (status = 204, description = "No newer events: the last run has ended, and the client has all of it."),
        (status = 410, description = "`event_log_expired`: some of the events after this position were deleted by age."),
        (status = 429, description = "`too_many_streams`: the process or the tenant has too many open streams.")
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    headers: HeaderMap,
    Query(options): Query<Options>,
) -> Result<Response, ApiError> {
    let given = client_position(&headers, options.after.as_deref())?;
    open(app, caller, path, given, &options).await
}

/// The client's position: from `Last-Event-ID`, which is newer, or from `after`.
pub(crate) fn client_position(
    headers: &HeaderMap,
    after: Option<&str>,
) -> Result<Option<Position>, ApiError> {
    let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?")).filter(|id| !id.is_empty());
    last.or(after)
        .map(|given| {
            given.parse().map_err(|_| ApiError::InvalidPosition { given: given.chars().take(80).collect() })
        })
        .transpose()
}
