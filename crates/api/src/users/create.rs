//! `POST /v1/users`: creates a user and one agentable of each kind with `made_with_user`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::id::{Shard, shard};
use houston_protocol::user::CreateUser;
use houston_store::agentable::NewAgentable;
use houston_store::idempotency::IdempotencyKey;
use houston_store::user::User;

use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;
use crate::users::{check_external_id, check_name, check_time_zone, external_id_taken, response};

/// The user to be created. `at`: the JSON pointer of the user in the request; `key`: the idempotency key of the request,
/// which is stored in the shard of the user.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when a field is invalid.
pub(crate) fn new_user(
    app: &App,
    caller: Caller,
    at: &str,
    body: CreateUser,
    key: Option<IdempotencyKey<'_>>,
) -> Result<User, ApiError> {
    check_name(at, &body.name)?;
    body.external_id.as_deref().map_or(Ok(()), |id| check_external_id(at, id))?;
    body.time_zone.as_deref().map_or(Ok(()), |zone| check_time_zone(at, zone))?;
    let ids = &app.state.ids;
    let id = match (&body.external_id, key) {
        (Some(external_id), _) => ids.next_in(Shard::of_external_id(caller.tenant(), external_id)),
        (None, Some(key)) => ids.next_in(Shard::of_idempotency_key(caller.tenant(), key.key)),
        (None, None) => ids.next(),
    };
    Ok(User {
        id,
        external_id: body.external_id,
        name: body.name,
        time_zone: body.time_zone.unwrap_or_else(|| "UTC".to_owned()),
        created_at: app.now(),
        cost: houston_store::cost::Cost::NOTHING,
    })
}

/// The agentables that are created together with the user.
pub(crate) fn own_agentables<'a>(app: &'a App, user: &'a User) -> Vec<NewAgentable<'a>> {
    let kinds = app.state.agent_types.values().filter(|kind| kind.made_with_user);
    kinds
        .map(|kind| NewAgentable {
            id: app.state.ids.beside(user.id),
            user: user.id,
            kind: &kind.kind,
            title: &user.name,
            description: "",
            status: kind.initial_status(),
            tools: None,
            created_at: user.created_at,
        })
        .collect()
}

endpoint! {
    CREATE: post "/v1/users" => create,
    tag = "users",
    operation_id = "create_user",
    summary = "Create a user, with the agentables that belong to every user.",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = CreateUser,
    responses(
        (status = 201, description = "The new user.", body = houston_protocol::user::UserResponse),
        (status = 409, description = "`already_exists`: another user has the external id.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<CreateUser>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    let key = key.as_ref().map(Key::as_stored);
    let user = new_user(&app, caller, "", body, key)?;
    let app = app.with_shard(shard(user.id));
    let own = own_agentables(&app, &user);
    let user_response = response(user.clone(), own.iter().map(|own| (own.kind, own.id)));
    let body = stored_body(&user_response);
    let done = app.store(caller).create_user(&user, &own, key, &body).await;
    let (stored, replayed) = unless_key_reused(done.map_err(external_id_taken)?)?;
    created(stored, replayed, "/v1/users")
}
