//! `GET /v1/inbound-hooks?agentable_id=`: the inbound hooks of an agentable; there are at most 20.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_protocol::inbound_hook::InboundHookList;
use serde::Deserialize;

use super::{agentable, cell_of, no_agentable, response};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::query::Query;
use crate::state::App;

/// The query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Of {
    #[serde(default)]
    agentable_id: String,
}

endpoint! {
    LIST: get "/v1/inbound-hooks" => list,
    tag = "webhooks",
    operation_id = "list_inbound_hooks",
    summary = "List the inbound hooks of an agentable, the oldest first.",
    params(("agentable_id" = houston_protocol::schema::AgentableId, Query, description = "Id of the agentable.")),
    responses((status = 200, description = "All its hooks.", body = InboundHookList)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(Of { agentable_id }): Query<Of>,
) -> Result<Json<InboundHookList>, ApiError> {
    let wrong = || no_agentable(|why| ApiError::parameter("agentable_id", why));
    let (agentable, _) = agentable(&app, &agentable_id).ok_or_else(wrong)?;
    let hooks = cell_of(&app, agentable).store(caller).inbound_hooks(agentable).await?;
    Ok(Json(InboundHookList { data: hooks.into_iter().map(|hook| response(&app, hook)).collect() }))
}
