//! `GET /v1/triggers`: what is due next.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::trigger::TriggerList;
use houston_store::trigger::{MAX_DUE, Trigger};

use super::response;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::missing_cells::across;
use crate::state::App;

endpoint! {
    DUE: get "/v1/triggers" => due,
    tag = "triggers",
    operation_id = "list_due_triggers",
    summary = "List the triggers of the tenant that are due at a time, the next one first.",
    description = "At most 100. Those that wait for words or events, and those that are paused, are not among them.",
    responses((status = 200, description = "What is due next.", body = TriggerList)),
}

pub(crate) async fn due(State(app): State<Arc<App>>, caller: Caller) -> Result<impl IntoResponse, ApiError> {
    let ask = |cell: Arc<App>| async move {
        Ok(match caller.user() {
            None => cell.store(caller).due_triggers().await?,
            Some(user) => cell.store(caller).triggers(user).await?,
        })
    };
    let (found, missing) = across(&app, ask).await?;
    let is_due = |of: &Trigger| of.enabled && of.next_at.is_some();
    let mut triggers: Vec<Trigger> = found.into_iter().flatten().filter(is_due).collect();
    triggers.sort_by_key(|of| of.next_at);
    triggers.truncate(MAX_DUE);
    Ok((missing, Json(TriggerList { data: triggers.into_iter().map(response).collect() })))
}
