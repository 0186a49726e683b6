//! `GET /v1/{kinds}/{id}/events`: the live event stream of an agentable, without gaps.
//!
//! [`render`] converts durable events to AG-UI; [`cursor`] decides what one client must be sent next; a
//! [`Dialect`](stream::Dialect) writes it in the protocol of the endpoint; [`stream`] is the body of the response and feeds the
//! cursor from Postgres and the bus; [`open`] opens one, without Postgres if the run began in this process;
//! [`crate::state::streams`] is the registry of all open streams. The position of a client is the `id` of the last frame it has
//! ([`position`]); the server stores nothing about a client between connections.

pub(crate) mod all;
pub(crate) mod cursor;
pub(crate) mod position;
pub(crate) mod render;
pub(crate) mod snapshot;
pub(crate) mod stream;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use houston_domain::event::Committed;
use houston_store::event::StreamHead;

use self::cursor::Cursor;
use self::position::Position;
use self::stream::{AgUi, Dialect, EventStream, PAGE};
use crate::request::checks::truncated;
use crate::request::prelude::*;
use crate::resources::shared_state;
use crate::state::streams::aborted;

endpoints! {
    get "/v1/{kinds}/{id}/events" for AGENTABLE.with_query_token() => get,
    "stream_events" in "events": "Stream the events of an agentable as server-sent events.",
    params(
        ("after" = Option<String>, Query, description = "The `id` of the last event the client has; 0 for all events. By default the stream begins with the open or latest run, or with the first event of it that is kept."),
        ("follow" = Option<bool>, Query, description = "Whether the stream stays open between runs; false by default."),
        ("interrupts" = Option<bool>, Query, description = "Whether the run ends for this stream with the outcome `interrupt` while it waits for a person; false by default."),
        ("access_token" = Option<String>, Query, description = "A client token, for an `EventSource`, which cannot send headers. An API key is not accepted here."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it."),
    ),
    200 "AG-UI events, each with an `id` from which the stream can be resumed." [houston_protocol::agui::Event, content_type = "text/event-stream"],
    204 "No newer events: the last run has ended, and the client has all of it.",
    410 "`event_log_expired`: some of the events after this position were deleted by age.",
    429 "`too_many_streams`: the process or the tenant has too many open streams.";
}
/// The headers of a stream.
pub(crate) const STREAM: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/event-stream"),
    (header::CACHE_CONTROL, "no-cache, no-transform"),
    (HeaderName::from_static("x-accel-buffering"), "no"),
];

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

async fn get(
    ctx: Ctx,
    path: AgentablePath,
    headers: HeaderMap,
    Query(options): Query<Options>,
) -> Result<Response> {
    let given = client_position(&headers, options.after.as_deref())?;
    open(ctx, path, given, &options, AgUi::default()).await
}

/// The text of the client's position: `Last-Event-ID`, which is newer, or `after`.
fn given<'r>(headers: &'r HeaderMap, after: Option<&'r str>) -> Option<&'r str> {
    let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?")).filter(|id| !id.is_empty());
    last.or(after)
}

/// The client's position.
pub(crate) fn client_position(headers: &HeaderMap, after: Option<&str>) -> Result<Option<Position>> {
    let invalid = |given: &str| ApiError::InvalidPosition(truncated(given));
    given(headers, after).map(|given| given.parse().map_err(|_| invalid(given))).transpose()
}

/// Opens a stream at the client's position.
pub(crate) async fn open(
    ctx: Ctx,
    path: AgentablePath,
    given: Option<Position>,
    options: &Options,
    dialect: AgUi,
) -> Result<Response> {
    let url = path.url_path();
    let location = |at: Position| {
        let follow = if options.follow { "&follow=true" } else { "" };
        let interrupts = if options.interrupts { "&interrupts=true" } else { "" };
        format!("{url}/events?after={at}{follow}{interrupts}")
    };
    open_as(ctx, path, given, options, (dialect, location)).await
}

/// Opens a stream at the client's position, or at the beginning of the open or latest run. `location`, which gets the
/// position where the stream begins, is the URL from which it can be resumed.
///
/// # Errors
/// [`ApiError::EventLogExpired`] when some of the events are gone, [`ApiError::TooManyStreams`], and those of the store.
pub(crate) async fn open_as<D: Dialect>(
    ctx: Ctx,
    path: AgentablePath,
    given: Option<Position>,
    options: &Options,
    (dialect, location): (D, impl FnOnce(Position) -> String),
) -> Result<Response> {
    if ctx.state.draining.is_cancelled() {
        return Ok(aborted().into_response());
    }
    // Before Postgres is read, so that no event is missed.
    let subscription = ctx.state.bus.subscribe(path.id);
    let after = given.map(|given| given.seq);
    let (head, first) = match begun(&ctx, &path, after) {
        Some(begun) => begun,
        None => ctx.store().open_stream(&path.kind, path.id, after, PAGE).await?,
    };
    let at = start(given, &head);
    let between_runs = at.seq == 0 || head.run.is_some_and(|(_, first)| at.seq == first - 1);
    let interrupted = options.interrupts
        && !between_runs
        && !ctx.store().questions_at_wait(path.id, at.seq).await?.is_empty();
    let finished = head.run.is_some() && (!head.run_open || interrupted) && at.seq >= head.last_seq;
    if finished && !options.follow {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let iteration = if between_runs { None } else { ctx.store().open_iteration_at(path.id, at.seq).await? };

    let permit = ctx.streams.reserved_or_new(ctx.caller)?;
    if given.is_some() {
        ctx.state.metrics.streams.resumes.inc();
    }
    let cursor = Cursor::new(&path.public_id(), at, iteration);
    let cursor = cursor.with_state(shared_state::at(&ctx, &path, at.seq).await?);
    let cursor = if options.interrupts { cursor.with_interrupts(interrupted) } else { cursor };
    let written = (dialect, options.follow);
    let stream = EventStream::new(ctx, path.id, (subscription, permit), cursor, first, written);
    Ok(answer(Body::new(stream), &location(at)))
}

/// The same as [`open_stream`](houston_store::TenantStore::open_stream), of a run that has begun in this process.
fn begun(ctx: &Ctx, path: &AgentablePath, after: Option<i64>) -> Option<(StreamHead, Vec<Committed>)> {
    let (of, first) = ctx.state.bus.begun(path.id, after)?;
    let last_seq = first.last().map(|last| last.seq).or(after)?;
    let run = Some((of.run, of.first_seq));
    let is_own = of.tenant == ctx.caller.tenant() && of.kind == path.kind;
    is_own.then_some((StreamHead { last_seq, run_open: true, run, events_from: 1 }, first))
}

/// The response with a stream. `location`: from where it can be resumed.
fn answer(stream: Body, location: &str) -> Response {
    let location = HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static(""));
    (STREAM, [(header::LOCATION, location)], stream).into_response()
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
