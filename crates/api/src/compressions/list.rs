//! `GET /v1/{kinds}/{id}/compressions`: compressions, newest first, each with entries and tokens before and after.

use houston_domain::id::CompressionId;
use houston_protocol::session::CompressionResponse;
use houston_protocol::time::Time;
use houston_store::compression::Compression;

use crate::page::List;
use crate::reads::list_of_agentable;

fn response(compression: Compression) -> CompressionResponse {
    let metrics = compression.metrics;
    CompressionResponse {
        id: compression.id,
        run_id: compression.run,
        session_position: compression.session_position,
        through_position: compression.through_position,
        summary: compression.summary,
        reason: compression.reason,
        entries_before: metrics.entries_before,
        entries_after: metrics.entries_after,
        tokens_before: metrics.tokens_before,
        tokens_after: metrics.tokens_after,
        model: compression.model,
        cost: compression.cost.map(|cost| cost.normalize()),
        created_at: Time(compression.created_at),
    }
}

list_of_agentable! {
    path: "/v1/{kinds}/{id}/compressions", tag: "sessions", operation: "list_compressions",
    summary: "List the compressions of an agentable's history, newest first.",
    list: Compressions, from: query => query.id(List::Compressions)?.map(CompressionId), position: |row| row.id.0.as_u128(),
    method: compressions, body: CompressionResponse, "A page of compressions.",
}
