//! `POST /v1/teams`: creates a team of existing agents.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_domain::id::AgentId;
use houston_domain::team::{Router, RouterKind};
use houston_protocol::team::TeamSettingsRequest;
use houston_store::team::Team;

use super::body;
use super::response;
use crate::agents::{ensure_defaults, name_taken};
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

endpoint! {
    CREATE: post "/v1/teams" => create,
    tag = "teams",
    operation_id = "create_team",
    summary = "Create a team of existing agents.",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: the same request with the same key gets the first response again and creates nothing new. 1 to 255 printable ASCII characters, kept for a day.")
    ),
    request_body = TeamSettingsRequest,
    responses(
        (status = 201, description = "The new team.", body = houston_protocol::team::TeamResponse),
        (status = 409, description = "`already_exists`: another team has the name; `full`: the tenant has the maximum number of teams.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<TeamSettingsRequest>,
) -> Result<Response, ApiError> {
    let Creation { value: body, key } = request;
    body::check_complete(&body)?;
    ensure_defaults(&app, caller).await?;
    let now = app.now();
    // The body sets every field, or the field has a default.
    let empty = Team {
        id: app.state.ids.next(),
        kind: String::new(),
        name: String::new(),
        description: String::new(),
        agents: Vec::new(),
        fallback: AgentId(uuid::Uuid::nil()),
        router: Router { by: RouterKind::Rules, rules: Vec::new() },
        output: None,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    let team = body::apply(body, &app, caller, empty).await?;
    let answered = stored_body(&response(team.clone()));
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store(caller).create_team(&team, key, &answered).await.map_err(name_taken)?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, "/v1/teams")
}
