//! `GET /v1/users/{id}/triggers`: all triggers of a user; there are at most 100.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::UserId;
use houston_protocol::trigger::TriggerList;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    LIST: get "/v1/users/{id}/triggers" => list,
    tag = "triggers",
    operation_id = "list_triggers",
    summary = "List the triggers of a user, the oldest first.",
    params(("id" = houston_protocol::schema::UserId, Path, description = "Id of the user.")),
    responses((status = 200, description = "All triggers.", body = TriggerList)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
) -> Result<Json<TriggerList>, ApiError> {
    app.store(caller).user(user).await?;
    let triggers = app.store(caller).triggers(user).await?;
    Ok(Json(TriggerList { data: triggers.into_iter().map(response).collect() }))
}
