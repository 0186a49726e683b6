//! `POST /v1/users/{id}/triggers`: creates a trigger.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::agentable::{AgentType, MAX_TITLE_CHARS};
use houston_domain::id::{AgentableId, UserId, parse_prefixed};
use houston_domain::mode::Mode;
use houston_domain::trigger::When;
use houston_domain::trigger::effect::{TriggerTask, check_template};
use houston_protocol::schema;
use houston_protocol::trigger::{CreateTrigger, TriggerResponse, TriggerThen};
use houston_store::trigger::Trigger;

use super::{check_instructions, check_name, check_when, response};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

#[utoipa::path(
    post,
    path = "/v1/users/{id}/triggers",
    tag = "triggers",
    operation_id = "create_trigger",
    summary = "Create a trigger: tell an agentable something, or start a task, at times, at words or at events.",
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
    let (agentable_id, instructions, task) = match then {
        TriggerThen::Tell { agentable_id, instructions } => (agentable_id, instructions, None),
        TriggerThen::Task { agentable_id, kind, title, instructions } => {
            (agentable_id, instructions, Some((kind, title)))
        }
    };
    check_instructions("/then/instructions", &instructions)?;
    let (when, now): (When, _) = (when.into(), app.now());
    let next_at = check_when(&when, now)?;
    let (found, agentable) = agentable(&app, &agentable_id)?;
    let task = match task {
        None => hears_triggers(found).map(|()| None)?,
        Some((kind, title)) => Some(task_of(&app, found, kind.as_deref(), title)?),
    };
    let kind = app.store(caller).kind_for_trigger(user, agentable).await?;
    let id = app.state.ids.beside(user);
    let trigger = Trigger {
        id,
        user,
        agentable: (agentable, kind),
        name,
        instructions,
        task,
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

/// The agentable that gets the message or the task, and its kind.
fn agentable<'a>(app: &'a App, id: &str) -> Result<(&'a AgentType, AgentableId), ApiError> {
    let kind = id.rsplit_once('_').map_or("", |(kind, _)| kind);
    let found = app.state.agent_types.get(kind);
    let found = found.and_then(|found| Some((found, parse_prefixed(kind, id).ok()?.into())));
    found.ok_or_else(|| {
        ApiError::field("/then/agentable_id", "must be the id of an agentable, as in `goal_…`")
    })
}

/// Whoever is told something must have the mode `trigger`.
fn hears_triggers(found: &AgentType) -> Result<(), ApiError> {
    if found.modes.contains(&Mode::Trigger) {
        return Ok(());
    }
    let reason = format!("{} has no triggers; only kinds with `modes = [\"trigger\"]` have them", found.kind);
    Err(ApiError::field("/then/agentable_id", reason))
}

/// A task of this kind, or of the first that the agentable may create.
fn task_of(
    app: &App,
    parent: &AgentType,
    kind: Option<&str>,
    title: String,
) -> Result<TriggerTask, ApiError> {
    check_line("/then/title", &title, MAX_TITLE_CHARS)?;
    check_template("/then/title", &title).map_err(|error| ApiError::field(&error.pointer, error.reason))?;
    let found = match kind {
        Some(wanted) => parent.creates.iter().find(|kind| *kind == wanted),
        None => parent.creates.first(),
    };
    let Some(found) = found.and_then(|kind| app.state.agent_types.get(kind)) else {
        let may = match parent.creates.join("`, `") {
            kinds if kinds.is_empty() => "it may create none".to_owned(),
            kinds => format!("it may create `{kinds}`"),
        };
        let reason = format!("{} cannot create such tasks; {may}", parent.kind);
        return Err(ApiError::field("/then/kind", reason));
    };
    let (kind, status) = (found.kind.clone(), found.initial_status().map(str::to_owned));
    Ok(TriggerTask { kind, status, title })
}
