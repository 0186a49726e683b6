//! `GET /v1/triggers/{id}`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::TriggerId;
use houston_protocol::trigger::TriggerResponse;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    GET: get "/v1/triggers/{id}" => get,
    tag = "triggers",
    operation_id = "get_trigger",
    summary = "Get a trigger: when it is due, how often it has fired, and why it was refused.",
    params(("id" = houston_protocol::schema::TriggerId, Path, description = "Id of the trigger.")),
    responses((status = 200, description = "The trigger.", body = TriggerResponse)),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TriggerId>,
) -> Result<Json<TriggerResponse>, ApiError> {
    Ok(Json(response(app.store(caller).trigger(id).await?)))
}
