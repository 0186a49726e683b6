//! `POST /v1/users/{id}/triggers`: creates a trigger.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::id::{UserId, parse_prefixed};
use houston_protocol::trigger::{CreateTrigger, TriggerThen};
use serde_json::json;

use super::new::{PlanOffer, new_trigger};
use super::{check_heard, check_owner, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::plans::create::offer;
use crate::plans::try_expressions;
use crate::state::App;

endpoint! {
    CREATE: post "/v1/users/{id}/triggers" => create,
    tag = "triggers",
    operation_id = "create_trigger",
    summary = "Create a trigger: tell an agentable something, or start a task or a plan, at times, at words or at events.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateTrigger,
    responses(
        (status = 201, description = "The new trigger.", body = houston_protocol::trigger::TriggerResponse),
        (status = 404, description = "`not_found`: the user has no such agentable."),
        (status = 409, description = "`full`: the user has the maximum number of triggers.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    request: Creation<CreateTrigger>,
) -> Result<Response, ApiError> {
    let Creation { value, key } = request;
    let id = app.state.ids.beside(user);
    let plans = match &value.then {
        TriggerThen::Plan { agentable_id, .. } => plan_offer(&app, caller, (user, agentable_id)).await?,
        TriggerThen::Tell { .. } | TriggerThen::Task { .. } => None,
    };
    let expressions = json!({"when": value.when, "then": value.then});
    let trigger = new_trigger(&app.state.agent_types, (id, user), value, (app.now(), plans.as_ref()))?;
    try_expressions(caller, "", &expressions).await?;
    let (agentable, kind) = &trigger.agentable;
    check_owner(&app, caller, user, (*agentable, kind)).await?;
    check_heard(&app, caller, user, &trigger.when).await?;
    let body = stored_body(&response(trigger.clone()));
    let done = app.store(caller).create_trigger(&trigger, key.as_ref().map(Key::as_stored), &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/triggers")
}

/// The plans that an agentable may have. `None`: none, or the id is not one of an agentable.
async fn plan_offer(
    app: &App,
    caller: Caller,
    (user, id): (UserId, &str),
) -> Result<Option<PlanOffer>, ApiError> {
    let Some(kind) = id.rsplit_once('_').and_then(|(kind, _)| app.state.agent_types.get(kind)) else {
        return Ok(None);
    };
    let Ok(id) = parse_prefixed(&kind.kind, id) else { return Ok(None) };
    // Before anything is said of what it may have.
    check_owner(app, caller, user, (id.into(), &kind.kind)).await?;
    let parent = app.store(caller).agentable(&kind.kind, id.into()).await?;
    let Some((plans, tools)) = offer(app, caller, kind, parent.tools.as_deref()).await? else {
        return Ok(None);
    };
    let limits = app.state.plans;
    Ok(Some(PlanOffer {
        kind: plans.kind.clone(),
        status: plans.initial_status().map(str::to_owned),
        tools,
        steps: limits.steps_of_request,
        lasts_s: limits.detached_s,
    }))
}
