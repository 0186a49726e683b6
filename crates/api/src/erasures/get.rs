//! `GET /v1/erasures/{id}`: one erasure and its progress.

use crate::erasures::response;
use crate::reads::get_by_id;

get_by_id! {
    path: "/v1/erasures/{id}", tag: "erasures", operation: "get_erasure",
    summary: "Get an erasure and its progress.",
    id: ErasureId, "Id of the erasure.",
    method: erasure, body: houston_protocol::erasure::ErasureResponse, "The erasure.",
}
