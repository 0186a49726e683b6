//! `GET /v1/runs/{id}`: one run.

use houston_protocol::run::RunResponse;

use crate::reads::get_by_id;
use crate::runs::response;

get_by_id! {
    path: "/v1/runs/{id}", tag: "runs", operation: "get_run",
    summary: "Get a run.",
    id: RunId, "Id of the run.",
    method: run, body: RunResponse, "The run.",
}
