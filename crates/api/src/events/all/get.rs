//! Opens a stream of all events of the tenant, or of one user, at the position of the client or at the present end.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use houston_domain::cell::CellName;
use houston_domain::event::topic::{EventFilter, MAX_PATTERNS, TopicPattern};
use houston_domain::id::{UserId, shard};
use houston_store::ApiStore;
use houston_store::event::EventPosition;
use serde::Deserialize;

use super::position::Positions;
use super::stream::{AllEvents, Source};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::events::abort::Aborted;
use crate::events::streams::StreamPermit;
use crate::query::Query;
use crate::state::App;

/// The query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    types: Option<String>,
    user_id: Option<String>,
    after: Option<String>,
    /// A client token, which authentication has read.
    #[serde(default, rename = "access_token")]
    _token: serde::de::IgnoredAny,
}

endpoint! {
    OF_TENANT: get "/v1/events" => of_tenant,
    tag = "events",
    operation_id = "stream_all_events",
    summary = "Stream the events of all agentables of the tenant as server-sent events.",
    params(
        ("types" = Option<String>, Query, description = "Patterns of topics, with commas between: `run.*,question.asked`. All by default."),
        ("user_id" = Option<houston_protocol::schema::UserId>, Query, description = "Only events of this user's agentables."),
        ("after" = Option<String>, Query, description = "The `id` of the last event the client has. By default the stream begins with what happens next."),
        ("access_token" = Option<String>, Query, description = "A client token, for an `EventSource`, which cannot send headers. An API key is not accepted here."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it.")
    ),
    responses(
        (status = 200, description = "CloudEvents. An event may come twice, with the same `id` in its data. The `id` of the frame is where the stream can be resumed.", body = houston_protocol::cloud_event::CloudEvent, content_type = "text/event-stream"),
        (status = 429, description = "`too_many_streams`: the process or the tenant has too many open streams.")
    ),
}

pub(crate) async fn of_tenant(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Query(options): Query<Options>,
) -> Result<Response, ApiError> {
    let parse =
        |id: &String| id.parse::<UserId>().map_err(|error| ApiError::parameter("user_id", error.to_string()));
    let user = caller.list_of(options.user_id.as_ref().map(parse).transpose()?)?;
    open(&app, caller, user, "/v1/events", &headers, &options).await
}

endpoint! {
    OF_USER: get "/v1/users/{id}/events" => of_user,
    tag = "events",
    operation_id = "stream_user_events",
    summary = "Stream the events of all agentables of a user as server-sent events.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("types" = Option<String>, Query, description = "Patterns of topics, with commas between: `run.*,question.asked`. All by default."),
        ("after" = Option<String>, Query, description = "The `id` of the last event the client has. By default the stream begins with what happens next."),
        ("access_token" = Option<String>, Query, description = "A client token, for an `EventSource`, which cannot send headers. An API key is not accepted here."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it.")
    ),
    responses(
        (status = 200, description = "CloudEvents, as of `GET /v1/events`: each names its thread.", body = houston_protocol::cloud_event::CloudEvent, content_type = "text/event-stream"),
        (status = 429, description = "`too_many_streams`: the process or the tenant has too many open streams.")
    ),
}

pub(crate) async fn of_user(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    headers: HeaderMap,
    Query(options): Query<Options>,
) -> Result<Response, ApiError> {
    if options.user_id.is_some() {
        return Err(ApiError::parameter("user_id", "must not be given: the path names the user"));
    }
    app.store(caller).user(user).await?;
    open(&app, caller, Some(user), &format!("/v1/users/{user}/events"), &headers, &options).await
}

async fn open(
    app: &Arc<App>,
    caller: Caller,
    user: Option<UserId>,
    path: &str,
    headers: &HeaderMap,
    options: &Options,
) -> Result<Response, ApiError> {
    if app.state.draining.is_cancelled() {
        return Ok(Body::new(Aborted).into_response());
    }
    let filter = EventFilter { topics: topics(options.types.as_deref())?, user, kind: None, agentable: None };
    let mut cells = app.cells_by_name();
    let names: Vec<CellName> = cells.iter().map(|(name, _)| name.clone()).collect();
    let given = given(headers, options.after.as_deref())?.map(|given| given.named(&names));
    if let Some(user) = user {
        let of_user = app.with_shard(shard(user));
        cells.retain(|(_, cell)| Arc::ptr_eq(cell, &of_user));
    }
    let permit = StreamPermit::new(Arc::clone(app), caller)?;
    if given.is_some() {
        app.state.metrics.streams.resumes.inc();
    }
    let count = cells.len();
    let mut sources = Vec::with_capacity(count);
    for (name, cell) in cells {
        // Before the position, so that no event is missed.
        let listener = cell.feeds.listen(caller.tenant());
        let position = match &given {
            Some(given) => resumed((&name, cell.as_ref()), user, given.of(&name, count)).await?,
            None => cell.api_store().event_position().await?,
        };
        // With one cell, as processes of the release before read it, which may serve the client next.
        let name = (names.len() > 1).then_some(name);
        sources.push(Source::new((name, cell), listener, position, given.is_some()));
    }
    let types = options.types.as_ref().map_or_else(String::new, |types| format!("&types={types}"));
    let of_user = if path == "/v1/events" { user } else { None };
    let of_user = of_user.map_or_else(String::new, |user| format!("&user_id={user}"));
    let location = sources.iter().map(Source::place).collect();
    let location = format!("{path}?after={}{types}{of_user}", Positions(location));
    let stream = AllEvents::new(app, sources, filter, permit, path.to_owned());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        (header::LOCATION, HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static(""))),
    ];
    Ok((headers, Body::new(stream)).into_response())
}

/// Where a stream goes on in a cell: behind what its client has of it. If that is of another cell, where the user was before,
/// behind what was there before the user came. In a cell that was added and has got no users yet, at the present end.
async fn resumed(
    (name, cell): (&CellName, &App),
    user: Option<UserId>,
    given: Option<&EventPosition>,
) -> Result<EventPosition, ApiError> {
    let store = cell.api_store();
    let position = match given {
        Some(position) => position.clone(),
        None => {
            let arrival = arrival(store, name, user).await?;
            arrival.ok_or_else(|| unusable("it is of another stream"))?
        }
    };
    if !position.is_behind(&store.event_position().await?) {
        return Err(unusable("too much has happened since, or it is of another database"));
    }
    if !store.keeps_events_since(&position).await? {
        return Err(unusable("events since were deleted by age"));
    }
    Ok(position)
}

/// The position in a cell before the users came to it whose events the client has of other cells; `None` when it is unknown.
async fn arrival(
    store: &ApiStore,
    name: &CellName,
    user: Option<UserId>,
) -> Result<Option<EventPosition>, ApiError> {
    if user.is_none() && name.shards().is_none() {
        // The cell was added since. Read before the moves: users that come to it later are behind this position.
        let now = store.event_position().await?;
        if !store.moves().await?.iter().any(|moved| moved.cell == *name) {
            return Ok(Some(now));
        }
    }
    Ok(store.arrival(user.map(shard)).await?)
}

/// The patterns of a list with commas.
fn topics(types: Option<&str>) -> Result<Vec<TopicPattern>, ApiError> {
    let patterns: Vec<&str> = types.unwrap_or("**").split(',').map(str::trim).collect();
    if patterns.len() > MAX_PATTERNS {
        return Err(ApiError::parameter("types", format!("must have 1 to {MAX_PATTERNS} patterns")));
    }
    let parse = |pattern: &str| {
        pattern.parse().map_err(|error| ApiError::parameter("types", format!("`{pattern:.100}`: {error}")))
    };
    patterns.into_iter().map(parse).collect()
}

/// The client's position: from `Last-Event-ID`, which is newer, or from `after`.
fn given(headers: &HeaderMap, after: Option<&str>) -> Result<Option<Positions>, ApiError> {
    let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?")).filter(|id| !id.is_empty());
    let parse = |text: &str| text.parse().map_err(|_| unusable("it is not the `id` of a frame"));
    last.or(after).map(parse).transpose()
}

fn unusable(why: &str) -> ApiError {
    let detail =
        format!("the stream cannot be resumed here: {why}; leave it out, and read what you show again");
    ApiError::parameter("after", detail)
}
