//! `GET /v1/queues`: the work of all lanes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::queue::QueuesResponse;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::queues::{LANES, queues};
use crate::state::App;

endpoint! {
    LIST: get "/v1/queues" => list,
    tag = "operate",
    operation_id = "list_queues",
    summary = "List the lanes with the work that waits in each.",
    description = "For a key with the scope `installation` that of all tenants, else that of the key's tenant. Counted in \
                   Postgres, so that it is right even while Redis is away.",
    responses((status = 200, description = "The lanes, the most urgent first.", body = QueuesResponse)),
}

pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<impl IntoResponse, ApiError> {
    let (missing, data) = queues(&app, caller, &LANES).await?;
    Ok((missing, Json(QueuesResponse { data })))
}
