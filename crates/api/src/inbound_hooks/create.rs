//! `POST /v1/inbound-hooks`: makes an address at which another program posts messages to an agentable. The response is the only
//! place where the secret can be read, so requests are not repeated by their `Idempotency-Key`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::InboundHookId;
use houston_domain::inbound_hook::{MAX_INSTRUCTIONS, name_problem};
use houston_domain::scope::Scope;
use houston_protocol::inbound_hook::{CreateInboundHook, InboundHookWithSecret};
use houston_store::inbound_hook::InboundHook;

use super::{agentable, cell_of, no_agentable, response};
use crate::auth::Caller;
use crate::body::{Creation, check_text};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;
use crate::webhooks::secret;

endpoint! {
    CREATE: post "/v1/inbound-hooks" => create,
    tag = "webhooks",
    operation_id = "create_inbound_hook",
    summary = "Make an address at which another program posts messages to an agentable.",
    description = "Needs the scope `post` besides `operate`.",
    request_body = CreateInboundHook,
    responses(
        (status = 201, description = "The hook; its secret cannot be read again.", body = InboundHookWithSecret),
        (status = 404, description = "`not_found`: there is no such agentable."),
        (status = 409, description = "`full`: the agentable has the maximum number of inbound hooks.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Creation { value: body, key: _ }: Creation<CreateInboundHook>,
) -> Result<impl IntoResponse, ApiError> {
    // Who knows its secret posts messages.
    caller.needs(Scope::Post)?;
    if let Some(problem) = name_problem(&body.name) {
        return Err(ApiError::field("/name", problem));
    }
    check_text("/instructions", &body.instructions)?;
    if body.instructions.chars().count() > MAX_INSTRUCTIONS {
        return Err(ApiError::field(
            "/instructions",
            format!("must have at most {MAX_INSTRUCTIONS} characters"),
        ));
    }
    let wrong = || no_agentable(|why| ApiError::field("/agentable_id", why));
    let agentable = agentable(&app, &body.agentable_id).ok_or_else(wrong)?;
    if !app.state.agent_types.get(&agentable.1).is_some_and(|kind| kind.conversational) {
        return Err(ApiError::field(
            "/agentable_id",
            format!("agentables of kind `{}` take no messages", agentable.1),
        ));
    }
    let id: InboundHookId = app.state.ids.beside(agentable.0);
    let secret = secret::make(&app, caller.tenant(), &id.to_string())?;
    let hook = InboundHook {
        id,
        tenant: caller.tenant(),
        agentable,
        name: body.name,
        instructions: body.instructions,
        sealed: secret.sealed,
        old_sealed: None,
        old_until: None,
        created_at: app.now(),
    };
    cell_of(&app, hook.agentable.0).store(caller).create_inbound_hook(&hook).await?;
    let created = InboundHookWithSecret { hook: response(&app, hook), secret: secret.text };
    Ok((StatusCode::CREATED, Json(created)))
}
