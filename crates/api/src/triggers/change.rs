//! `PATCH /v1/triggers/{id}`: changes the given fields, switches on and off.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::TriggerId;
use houston_domain::trigger::When;
use houston_protocol::trigger::{TriggerResponse, UpdateTrigger};
use houston_store::trigger::TriggerChange;
use serde_json::json;

use super::{check_heard, check_instructions, check_name, check_when, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::fields::Change;
use crate::plans::try_expressions;
use crate::state::App;

endpoint! {
    CHANGE: patch "/v1/triggers/{id}" => change,
    tag = "triggers",
    operation_id = "update_trigger",
    summary = "Change a trigger; fields not given stay as they are.",
    params(("id" = houston_protocol::schema::TriggerId, Path, description = "Id of the trigger.")),
    request_body = UpdateTrigger,
    responses((status = 200, description = "The trigger.", body = TriggerResponse)),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<TriggerId>,
    Change(value): Change<UpdateTrigger>,
) -> Result<Json<TriggerResponse>, ApiError> {
    if value == UpdateTrigger::default() {
        let fields = "`name`, `instructions`, `when`, `enabled`";
        return Err(ApiError::field("", format!("nothing to change: give at least one of {fields}")));
    }
    let now = app.now();
    let expressions = json!({"when": value.when, "instructions": value.instructions});
    let when: Option<When> = value.when.map(Into::into);
    if let Some(name) = &value.name {
        check_name(name)?;
    }
    if let Some(instructions) = &value.instructions {
        check_instructions("/instructions", instructions)?;
    }
    if let Some(when) = &when {
        check_when(when, now)?;
        if matches!(when, When::Event { agentable_id: Some(_), .. }) {
            let user = app.store(caller).owner_of_row(id.0).await?.user;
            check_heard(&app, caller, user, when).await?;
        }
    }
    try_expressions(caller, "", &expressions).await?;
    let change = TriggerChange {
        name: value.name.as_deref(),
        instructions: value.instructions.as_deref(),
        when: when.as_ref(),
        enabled: value.enabled,
    };
    Ok(Json(response(app.store(caller).change_trigger(id, change, now).await?)))
}
