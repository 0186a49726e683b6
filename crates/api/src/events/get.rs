//! `GET /v1/{kinds}/{id}/events`: opens a stream, at the position the client has, or at the open or latest run.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use houston_protocol::agui::Event;
use houston_protocol::schema;
use houston_store::event::StreamHead;
use serde::Deserialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::events::cursor::Cursor;
use crate::events::position::Position;
use crate::events::stream::{Aborted, EventStream};
use crate::events::streams::Admitted;
use crate::agentable_path::AgentablePath;
use crate::query::Query;
use crate::state::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    after: Option<String>,
    #[serde(default)]
    follow: bool,
}

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/events",
    tag = "events",
    operation_id = "stream_events",
    summary = "What happens, as server-sent events",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("after" = Option<String>, Query, description = "The `id` of the last event the client has; 0: from the first."),
        ("follow" = Option<bool>, Query, description = "Whether the stream stays open between runs."),
        ("Last-Event-ID" = Option<String>, Header, description = "The same as `after`, which it overrides.")
    ),
    responses(
        (status = 200, description = "AG-UI events, each with an `id` to resume after", body = Event, content_type = "text/event-stream"),
        (status = 204, description = "Nothing is to come: the last run has ended, and the client has all of it"),
        (status = 429, description = "`too_many_streams`")
    ),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    headers: HeaderMap,
    Query(options): Query<Options>,
) -> Result<Response, ApiError> {
    let given = given(&headers, options.after.as_deref())?;
    if app.state.draining.is_cancelled() {
        return Ok(Body::new(Aborted).into_response());
    }
    let head = app.store().stream_head(caller.tenant, &place.kind, place.id).await?;
    let at = start(given, &head);
    let finished = head.run.is_some() && !head.run_open && at.seq >= head.last_seq;
    if finished && !options.follow {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let between_runs = at.seq == 0 || head.run.is_some_and(|(_, first)| at.seq == first - 1);
    let iteration = if between_runs { None } else { app.store().open_iteration_at(place.id, at.seq).await? };

    let cursor = Cursor::new(&place.shown(), at, iteration);
    let admitted = Admitted::new(Arc::clone(&app), caller)?;
    let subscription = app.state.bus.subscribe(place.id);
    let stream = EventStream::new(Arc::clone(&app), place.id, subscription, cursor, options.follow, admitted);
    let follow = if options.follow { "&follow=true" } else { "" };
    let location = format!("{}/events?after={at}{follow}", place.path());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        (header::LOCATION, HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static(""))),
    ];
    Ok((headers, Body::new(stream)).into_response())
}

/// The position the client has: what its last connection told it comes before what its URL says.
fn given(headers: &HeaderMap, after: Option<&str>) -> Result<Option<Position>, ApiError> {
    let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?")).filter(|id| !id.is_empty());
    last.or(after)
        .map(|given| {
            given.parse().map_err(|_| ApiError::InvalidPosition { given: given.chars().take(80).collect() })
        })
        .transpose()
}

/// Where the stream begins. A position that has not been reached yet comes from a log that was longer: a failover
/// has cut it.
fn start(given: Option<Position>, head: &StreamHead) -> Position {
    match given {
        Some(given) if given.seq > head.last_seq => Position::after(head.last_seq),
        Some(given) => given,
        None => Position::after(head.run.map_or(0, |(_, first)| first - 1)),
    }
}
