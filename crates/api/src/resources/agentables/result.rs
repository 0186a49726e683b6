//! `GET /v1/{kinds}/{id}/results/{result_id}?offset=&limit=`: reads a large tool result in parts. Offsets are bytes, as
//! in the history and in `read_result`; a part begins and ends between two characters. A result can be read through its
//! own agentable, its parent and its tasks.

use houston_domain::id::ResultId;
use houston_domain::tool_result::{ResultPart, part};
use houston_protocol::session::ResultPartResponse;

use crate::request::agentable_path::{Owner, path_value};
use crate::request::prelude::*;

endpoints! {
    get "/v1/{kinds}/{id}/results/{result_id}" for AGENTABLE.unshown() => get,
    "get_result" in "sessions": "Read a part of a large tool result.",
    params(
        ("result_id" = ResultId, Path, description = "Id of the result, as the history names it."),
        ("offset" = Option<u64>, Query, description = "Offset of the part in bytes; 0 by default."),
        ("limit" = Option<u32>, Query, minimum = 4, maximum = 262144, description = "Maximum length of the part in bytes; 16 KiB by default."),
    ),
    200 "The part." [ResultPartResponse];
}

/// Default length of a part, in bytes.
const DEFAULT_BYTES: usize = 16 * 1024;
/// Maximum length of a part, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The query: offset and maximum length of the part, in bytes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    offset: Option<String>,
    limit: Option<String>,
}

impl Range {
    fn read(&self) -> Result<(usize, usize)> {
        let number = |name: &str, given: &Option<String>, usual, allowed: std::ops::RangeInclusive<usize>| {
            let Some(given) = given else { return Ok(usual) };
            given.parse::<usize>().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
                let detail =
                    format!("must be a number of bytes from {} to {}", allowed.start(), allowed.end());
                ApiError::parameter(name, detail)
            })
        };
        let offset = number("offset", &self.offset, 0, 0..=usize::MAX / 2)?;
        Ok((offset, number("limit", &self.limit, DEFAULT_BYTES, 4..=MAX_BYTES)?))
    }
}

async fn get(
    ctx: Ctx,
    path: AgentablePath,
    ResultPath(id): ResultPath,
    Query(range): Query<Range>,
) -> Result<impl IntoResponse> {
    let (offset, limit) = range.read()?;
    ctx.confirm(&path).await?;
    let result = ctx.store().tool_result(path.id, id).await?;
    let ResultPart { start: offset, text: content, next: next_offset } = part(&result.content, offset, limit);
    Ok(Json(ResultPartResponse {
        id,
        owner: Owner { kind: path.kind, id: path.id },
        tool: result.tool,
        call_id: result.call,
        bytes: result.content.len(),
        offset,
        content: content.to_owned(),
        next_offset,
        created_at: Time(result.created_at),
    }))
}

path_value! {
    /// Extracts `result_id` from the path.
    ResultPath(ResultId): "result_id" or "result", |id| id.parse().ok()
}
