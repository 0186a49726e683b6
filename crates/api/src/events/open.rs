//! Opens an event stream for a client, in the protocol of its endpoint.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use houston_store::event::StreamHead;

use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::events::abort::Aborted;
use crate::events::cursor::Cursor;
use crate::events::dialect::{AgUi, Dialect};
use crate::events::get::Options;
use crate::events::position::Position;
use crate::events::stream::{EventStream, PAGE};
use crate::events::streams::StreamPermit;
use crate::shared_state;
use crate::state::App;

/// Opens a stream at the client's position.
pub(crate) async fn open(
    app: Arc<App>,
    caller: Caller,
    path: AgentablePath,
    given: Option<Position>,
    options: &Options,
) -> Result<Response, ApiError> {
    let url = path.url_path();
    let location = |at: Position| {
        let follow = if options.follow { "&follow=true" } else { "" };
        let interrupts = if options.interrupts { "&interrupts=true" } else { "" };
        format!("{url}/events?after={at}{follow}{interrupts}")
    };
    open_as(app, caller, path, given, options, (AgUi, location)).await
}

/// Opens a stream at the client's position, or at the beginning of the open or latest run. `location`, which gets the
/// position where the stream begins, is the URL from which it can be resumed.
///
/// # Errors
/// [`ApiError::EventLogExpired`] when some of the events are gone, [`ApiError::TooManyStreams`], and those of the store.
pub(crate) async fn open_as<D: Dialect>(
    app: Arc<App>,
    caller: Caller,
    path: AgentablePath,
    given: Option<Position>,
    options: &Options,
    (dialect, location): (D, impl FnOnce(Position) -> String),
) -> Result<Response, ApiError> {
    if app.state.draining.is_cancelled() {
        return Ok(Body::new(Aborted).into_response());
    }
    // Before Postgres is read, so that no event is missed.
    let subscription = app.state.bus.subscribe(path.id);
    let after = given.map(|given| given.seq);
    let (head, first) = app.store(caller).open_stream(&path.kind, path.id, after, PAGE).await?;
    let at = start(given, &head);
    let between_runs = at.seq == 0 || head.run.is_some_and(|(_, first)| at.seq == first - 1);
    let interrupted = options.interrupts
        && !between_runs
        && !app.store(caller).questions_at_wait(path.id, at.seq).await?.is_empty();
    let finished = head.run.is_some() && (!head.run_open || interrupted) && at.seq >= head.last_seq;
    if finished && !options.follow {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let iteration =
        if between_runs { None } else { app.store(caller).open_iteration_at(path.id, at.seq).await? };

    let permit = StreamPermit::reserved_or_new(Arc::clone(&app), caller)?;
    if given.is_some() {
        app.state.metrics.streams.resumes.inc();
    }
    let cursor = Cursor::new(&path.public_id(), at, iteration);
    let cursor = cursor.with_state(shared_state::at(&app, caller, &path, at.seq).await?);
    let cursor = if options.interrupts { cursor.with_interrupts(interrupted) } else { cursor };
    let written = (dialect, options.follow);
    let stream = EventStream::new(Arc::clone(&app), path.id, (subscription, permit), cursor, first, written);
    let location = location(at);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        (header::LOCATION, HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static(""))),
    ];
    Ok((headers, Body::new(stream)).into_response())
}

/// Where the stream begins. A position beyond the end of the log means that a failover has truncated the log; then the
/// stream begins at its end.
fn start(given: Option<Position>, head: &StreamHead) -> Position {
    match given {
        Some(given) if given.seq > head.last_seq => Position::after(head.last_seq),
        Some(given) => given,
        None => Position::after(head.run.map_or(0, |(_, first)| first.max(head.events_from) - 1)),
    }
}
