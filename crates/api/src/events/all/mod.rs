//! `GET /v1/events` and `GET /v1/users/{id}/events`: the events of all agentables of a tenant, or of a user, as CloudEvents.
//!
//! One poll for each cell and process reads the new events of all tenants that have such a stream open
//! ([`feeds`](crate::state::streams::feeds)), so that an idle stream costs nothing. A stream that resumes first reads from its
//! position to the present end by itself ([`stream`]). Between both an event may arrive twice, and none is lost: events have ids.
//!
//! The position of a client is one for each cell, with its name if there are several, because users move between cells and cells
//! are added ([`Positions`]). Its text is opaque to clients.

mod stream;

use std::fmt;
use std::str::FromStr;

use axum::body::Body;
use axum::http::HeaderMap;
use houston_domain::cell::{CellName, ShardRange};
use houston_domain::event::topic::{EventFilter, MAX_PATTERNS, TopicPattern};
use houston_domain::id::{UserId, shard};
use houston_store::ApiStore;
use houston_store::event::EventPosition;

use self::stream::{AllEvents, Source};
use crate::events::{answer, given};
use crate::request::prelude::*;
use crate::request::query::id;
use crate::state::streams::aborted;

endpoints! {
    get "/v1/events" for NAMED.with_query_token() => of_tenant,
    "stream_all_events" in "events": "Stream the events of all agentables of the tenant as server-sent events.",
    params(
        ("types" = Option<String>, Query, description = "Patterns of topics, with commas between: `run.*,question.asked`. All by default."),
        ("user_id" = Option<UserId>, Query, description = "Only events of this user's agentables."),
        ("after" = Option<String>, Query, description = "The `id` of the last event the client has. By default the stream begins with what happens next."),
        ("access_token" = Option<String>, Query, description = "A client token, for an `EventSource`, which cannot send headers. An API key is not accepted here."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it."),
    ),
    200 "CloudEvents. An event may come twice, with the same `id` in its data. The `id` of the frame is where the stream can be resumed." [houston_protocol::cloud_event::CloudEvent, content_type = "text/event-stream"],
    429 "`too_many_streams`: the process or the tenant has too many open streams.";

    get "/v1/users/{id}/events" for USER.with_query_token() => of_user,
    "stream_user_events" in "events": "Stream the events of all agentables of a user as server-sent events.",
    params(
        ("types" = Option<String>, Query, description = "Patterns of topics, with commas between: `run.*,question.asked`. All by default."),
        ("after" = Option<String>, Query, description = "The `id` of the last event the client has. By default the stream begins with what happens next."),
        ("access_token" = Option<String>, Query, description = "A client token, for an `EventSource`, which cannot send headers. An API key is not accepted here."),
        ("Last-Event-ID" = Option<String>, Header, description = "Like `after`, and takes precedence over it."),
    ),
    200 "CloudEvents, as of `GET /v1/events`: each names its thread." [houston_protocol::cloud_event::CloudEvent, content_type = "text/event-stream"],
    429 "`too_many_streams`: the process or the tenant has too many open streams.";
}

/// The query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    types: Option<String>,
    user_id: Option<String>,
    after: Option<String>,
    /// A client token, which authentication has read.
    #[serde(default, rename = "access_token")]
    _token: serde::de::IgnoredAny,
}

async fn of_tenant(ctx: Ctx, headers: HeaderMap, Query(options): Query<Options>) -> Result<Response> {
    let user = ctx.caller.list_of(id("user_id", options.user_id.as_deref())?)?;
    open(&ctx, user, "/v1/events", &headers, &options).await
}

async fn of_user(
    ctx: Ctx,
    Id(user): Id<UserId>,
    headers: HeaderMap,
    Query(options): Query<Options>,
) -> Result<Response> {
    if options.user_id.is_some() {
        return Err(ApiError::parameter("user_id", "must not be given: the path names the user"));
    }
    ctx.store().user(user).await?;
    open(&ctx, Some(user), &format!("/v1/users/{user}/events"), &headers, &options).await
}

async fn open(
    ctx: &Ctx,
    user: Option<UserId>,
    path: &str,
    headers: &HeaderMap,
    options: &Options,
) -> Result<Response> {
    if ctx.state.draining.is_cancelled() {
        return Ok(aborted().into_response());
    }
    let filter = EventFilter { topics: topics(options.types.as_deref())?, user, kind: None, agentable: None };
    let mut cells = ctx.cells_by_name();
    let names: Vec<CellName> = cells.iter().map(|(name, _)| name.clone()).collect();
    let parse = |text: &str| match text.parse::<Positions>() {
        Ok(given) => Ok(given.named(&names)),
        Err(NoPositions) => Err(unusable("it is not the `id` of a frame")),
    };
    let given = given(headers, options.after.as_deref()).map(parse).transpose()?;
    if let Some(user) = user {
        let of_user = ctx.with_shard(shard(user));
        cells.retain(|(_, cell)| Arc::ptr_eq(cell, &of_user));
    }
    let permit = ctx.streams.permit(ctx.caller)?;
    if given.is_some() {
        ctx.state.metrics.streams.resumes.inc();
    }
    let count = cells.len();
    let mut sources = Vec::with_capacity(count);
    for (name, cell) in cells {
        // Before the position, so that no event is missed.
        let listener = cell.feeds.listen(ctx.caller.tenant());
        let position = match &given {
            Some(given) => resumed((&name, cell.as_ref()), user, given.of(&name, count)).await?,
            None => cell.api_store().event_position().await?,
        };
        // With one cell, as processes of the release before read it, which may serve the client next.
        let name = (names.len() > 1).then_some(name);
        let catches_up = given.is_some();
        sources.push(Source { name, app: cell, position, listener, catches_up, reading: None });
    }
    let types = options.types.as_ref().map_or_else(String::new, |types| format!("&types={types}"));
    let of_user = if path == "/v1/events" { user } else { None };
    let of_user = of_user.map_or_else(String::new, |user| format!("&user_id={user}"));
    let location = sources.iter().map(Source::place).collect();
    let location = format!("{path}?after={}{types}{of_user}", Positions(location));
    let stream = AllEvents::new(ctx, sources, filter, permit, path.to_owned());
    Ok(answer(Body::new(stream), &location))
}

/// Where a stream goes on in a cell: behind what its client has of it. If that is of another cell, where the user was before,
/// behind what was there before the user came. In a cell that was added and has got no users yet, at the present end.
async fn resumed(
    (name, cell): (&CellName, &App),
    user: Option<UserId>,
    given: Option<&EventPosition>,
) -> Result<EventPosition> {
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
async fn arrival(store: &ApiStore, name: &CellName, user: Option<UserId>) -> Result<Option<EventPosition>> {
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
fn topics(types: Option<&str>) -> Result<Vec<TopicPattern>> {
    let patterns: Vec<&str> = types.unwrap_or("**").split(',').map(str::trim).collect();
    if patterns.len() > MAX_PATTERNS {
        return Err(ApiError::parameter("types", format!("must have 1 to {MAX_PATTERNS} patterns")));
    }
    let parse = |pattern: &str| {
        pattern.parse().map_err(|error| ApiError::parameter("types", format!("`{pattern:.100}`: {error}")))
    };
    patterns.into_iter().map(parse).collect()
}

fn unusable(why: &str) -> ApiError {
    let detail =
        format!("the stream cannot be resumed here: {why}; leave it out, and read what you show again");
    ApiError::parameter("after", detail)
}

/// The position in one cell. Where there is one cell only, and in positions of earlier versions, it has no name.
pub(crate) type Place = (Option<CellName>, EventPosition);

/// Positions in all cells that the stream reads, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Positions(pub(crate) Vec<Place>);

impl Positions {
    /// Gives positions without a name that of their cell, of all in an installation: the only one has all shards, also after others
    /// were added. One that an earlier version has made for a user stays without if it may be of any.
    pub(crate) fn named(mut self, cells: &[CellName]) -> Self {
        let has_whole = cells.first().is_some_and(|first| first.shards() == Some(ShardRange::ALL));
        if self.0.len() == cells.len() || self.0.len() == 1 && has_whole {
            for ((name, _), cell) in self.0.iter_mut().zip(cells) {
                name.get_or_insert_with(|| cell.clone());
            }
        }
        self
    }

    /// The position in a cell, which is one of `count` that a stream reads.
    pub(crate) fn of(&self, cell: &CellName, count: usize) -> Option<&EventPosition> {
        let named = self.0.iter().find(|(name, _)| name.as_ref() == Some(cell));
        let only = || self.0.first().filter(|(name, _)| name.is_none() && self.0.len() == 1 && count == 1);
        named.or_else(only).map(|(_, position)| position)
    }
}

/// Maximum length of a text. A snapshot names the transactions that were open.
const MAX_LENGTH: usize = 16 * 1024;

/// A text that is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoPositions;

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (cell, position)) in self.0.iter().enumerate() {
            if nth > 0 {
                f.write_str("_")?;
            }
            if let Some(cell) = cell {
                write!(f, "{cell}!")?;
            }
            // Without characters that would have to be escaped in a query.
            let text = position.to_string().replace(':', ".").replace(',', "-");
            f.write_str(&text)?;
        }
        Ok(())
    }
}

impl FromStr for Positions {
    type Err = NoPositions;

    fn from_str(text: &str) -> Result<Self, NoPositions> {
        ensure!(text.len() <= MAX_LENGTH, NoPositions);
        let place = |part: &str| -> Result<Place, NoPositions> {
            let (cell, position) =
                part.split_once('!').map_or((None, part), |(cell, rest)| (Some(cell), rest));
            let cell = cell.map(str::parse::<CellName>).transpose().map_err(|_| NoPositions)?;
            let position = position.replace('.', ":").replace('-', ",");
            Ok((cell, position.parse::<EventPosition>().map_err(|_| NoPositions)?))
        };
        text.split('_').map(place).collect::<Result<Vec<Place>, NoPositions>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_were_written() {
        let page: EventPosition = "1:5:2,3~1:9:~0190a5c1e0e07000800000000000cafe~3".parse().unwrap();
        let (first, third): (CellName, CellName) =
            ("0000-7fff".parse().unwrap(), "the-third".parse().unwrap());
        let seven: EventPosition = "7:7:".parse().unwrap();
        let positions = Positions(vec![(Some(first), seven), (Some(third.clone()), page.clone())]);
        let text = positions.to_string();
        assert_eq!(text, "0000-7fff!7.7._the-third!1.5.2-3~1.9.~0190a5c1e0e07000800000000000cafe~3");
        assert_eq!(text.parse(), Ok(positions.clone()));
        assert_eq!(positions.of(&third, 1), Some(&page), "whatever the order is");
        assert_eq!(positions.of(&"another".parse().unwrap(), 2), None);
        for wrong in ["", "_", "7.7", "7.7.__7.7.", "7.7.;drop", "!7.7.", "a!b!7.7.", &"7".repeat(20_000)] {
            assert_eq!(wrong.parse::<Positions>(), Err(NoPositions), "{wrong:.30}");
        }
    }

    #[test]
    fn positions_without_names_are_of_the_cells_there_were() {
        let names =
            |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<CellName>>();
        let parse = |text: &str| text.parse::<Positions>().unwrap();
        let (seven, nine): (EventPosition, EventPosition) =
            ("7:7:".parse().unwrap(), "9:9:".parse().unwrap());
        let halves = names(&["0000-7fff", "8000-ffff"]);
        let both = parse("7.7._9.9.").named(&halves);
        assert_eq!((both.of(&halves[0], 2), both.of(&halves[1], 2)), (Some(&seven), Some(&nine)));
        assert_eq!(both.of(&halves[1], 1), Some(&nine), "of a user there");
        let of_user = parse("7.7.").named(&halves);
        assert_eq!((of_user.of(&halves[1], 1), of_user.of(&halves[1], 2)), (Some(&seven), None));
        let added = names(&["0000-ffff", "third"]);
        let before = parse("7.7.").named(&added);
        assert_eq!((before.of(&added[0], 2), before.of(&added[1], 1)), (Some(&seven), None));
        let one = parse("7.7.").named(&added[..1]);
        assert_eq!(one.of(&added[0], 1), Some(&seven));
    }
}
