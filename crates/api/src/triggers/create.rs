//! `POST /v1/users/{id}/triggers`: creates a trigger.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::id::{AgentableId, UserId, parse_prefixed};
use houston_domain::mode::Mode;
use houston_domain::trigger::When;
use houston_protocol::schema;
use houston_protocol::trigger::{CreateTrigger, TriggerResponse, TriggerThen};
use houston_store::trigger::Trigger;

use super::{check_instructions, check_name, check_when, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/users/{id}/triggers",
    tag = "triggers",
    operation_id = "create_trigger",
    summary = "Create a trigger: tell an agentable something at times, at words or at events.",
    params(
        ("id" = schema::UserId, Path, description = "Id of the user."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateTrigger,
    responses(
        (status = 201, description = "The new trigger.", body = TriggerResponse),
        (status = 404, description = "`not_found`: the user has no such agentable."),
        (status = 409, description = "`full`: the user has the maximum number of triggers.")
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    request: Creation<CreateTrigger>,
) -> Result<Response, ApiError> {
    let Creation { value: CreateTrigger { name, when, then }, key } = request;
    check_name(&name)?;
    let TriggerThen::Tell { agentable_id, instructions } = then;
    check_instructions("/then/instructions", &instructions)?;
    let (when, now): (When, _) = (when.into(), app.now());
    let next_at = check_when(&when, now)?;
    let agentable = agentable(&app, &agentable_id)?;
    let kind = app.store(caller).kind_for_trigger(user, agentable).await?;
    let id = app.state.ids.beside(user);
    let trigger = Trigger {
        id,
        user,
        agentable: (agentable, kind),
        name,
        instructions,
        when,
        next_at,
        enabled: true,
        fired: 0,
        refused: (0, None),
        last_at: None,
        created_at: now,
        updated_at: now,
    };
    let body = stored_body(&response(trigger.clone()));
    let done = app.store(caller).create_trigger(&trigger, key.as_ref().map(Key::as_stored), &body).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/triggers")
}

/// The agentable that gets the message. Its kind must have the mode `trigger`.
fn agentable(app: &App, id: &str) -> Result<AgentableId, ApiError> {
    const POINTER: &str = "/then/agentable_id";
    let kind = id.rsplit_once('_').map_or("", |(kind, _)| kind);
    let found =
        app.state.agent_types.get(kind).and_then(|found| Some((found, parse_prefixed(kind, id).ok()?)));
    let (found, parsed) =
        found.ok_or_else(|| ApiError::field(POINTER, "must be the id of an agentable, as in `goal_…`"))?;
    if !found.modes.contains(&Mode::Trigger) {
        let reason = format!("{kind} has no triggers; only kinds with `modes = [\"trigger\"]` have them");
        return Err(ApiError::field(POINTER, reason));
    }
    Ok(parsed.into())
}
