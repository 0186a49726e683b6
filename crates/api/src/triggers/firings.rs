//! `GET /v1/triggers/{id}/firings`: what became of a trigger the last times.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::TriggerId;
use houston_protocol::trigger::TriggerFiringList;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    FIRINGS: get "/v1/triggers/{id}/firings" => firings,
    tag = "triggers",
    operation_id = "list_trigger_firings",
    summary = "List the last 20 times that a trigger was due: what it has made, or why it did not fire.",
    params(("id" = houston_protocol::schema::TriggerId, Path, description = "Id of the trigger.")),
    responses((status = 200, description = "The firings, the latest first.", body = TriggerFiringList)),
}

pub(crate) async fn firings(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TriggerId>,
) -> Result<Json<TriggerFiringList>, ApiError> {
    let firings = app.store(caller).trigger_firings(id).await?;
    Ok(Json(TriggerFiringList { data: firings.into_iter().map(Into::into).collect() }))
}
