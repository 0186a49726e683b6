//! `GET /v1/{kinds}/{id}/results/{result_id}?offset=&limit=`: a long result of a tool that its history names, part by
//! part. Offsets are bytes, as the history and `read_result` count; a part begins and ends between two characters.
//! Read by the agentable whose result it is, the one that works for it, and those that do.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use axum::response::IntoResponse;
use houston_domain::id::ResultId;
use houston_domain::tool_result::part;
use houston_protocol::schema;
use houston_protocol::session::ResultPartResponse;
use houston_protocol::time::Time;
use serde::Deserialize;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::agentable_path::{Owner, AgentablePath};
use crate::query::Query;
use crate::state::App;

/// Bytes of a part when the query says nothing.
const USUAL_BYTES: usize = 16 * 1024;
/// Bytes of a part at most.
const MAX_BYTES: usize = 256 * 1024;

/// The query: where the part begins, and how long it may be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    offset: Option<String>,
    limit: Option<String>,
}

impl Range {
    fn read(&self) -> Result<(usize, usize), ApiError> {
        let number = |name: &str, given: &Option<String>, usual, allowed: std::ops::RangeInclusive<usize>| {
            let Some(given) = given else { return Ok(usual) };
            given.parse::<usize>().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
                let told = format!("must be a number of bytes from {} to {}", allowed.start(), allowed.end());
                ApiError::parameter(name, told)
            })
        };
        let offset = number("offset", &self.offset, 0, 0..=usize::MAX / 2)?;
        Ok((offset, number("limit", &self.limit, USUAL_BYTES, 4..=MAX_BYTES)?))
    }
}

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/results/{result_id}",
    tag = "sessions",
    operation_id = "get_result",
    summary = "A part of a long result of a tool",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("result_id" = schema::ResultId, Path),
        ("offset" = Option<u64>, Query, description = "Where the part begins, in bytes; 0, if not given."),
        ("limit" = Option<u32>, Query, minimum = 4, maximum = 262144, description = "Bytes of the part; 16 KiB, if not given.")
    ),
    responses((status = 200, description = "The part", body = ResultPartResponse)),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    OfPath(id): OfPath,
    Query(range): Query<Range>,
) -> Result<impl IntoResponse, ApiError> {
    let (offset, limit) = range.read()?;
    app.confirm(caller, &place).await?;
    let kept = app.store().tool_result(caller.tenant, place.id, id).await?;
    let (offset, content, next_offset) = part(&kept.content, offset, limit);
    Ok(Json(ResultPartResponse {
        id,
        owner: Owner { kind: place.kind, id: place.id },
        tool: kept.tool,
        call_id: kept.call,
        bytes: kept.content.len(),
        offset,
        content: content.to_owned(),
        next_offset,
        created_at: Time(kept.created_at),
    }))
}

/// The id of the result in the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfPath(ResultId);

impl<S: Send + Sync> FromRequestParts<S> for OfPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "result" };
        let params = RawPathParams::from_request_parts(parts, state).await.map_err(|_| NOT_FOUND)?;
        let id = params.iter().find(|(name, _)| *name == "result_id").and_then(|(_, id)| id.parse().ok());
        id.map(Self).ok_or(NOT_FOUND)
    }
}
