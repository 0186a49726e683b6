//! `POST /v1/inbound-hooks/{id}/secret`: replaces the secret. For a time both are accepted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::id::InboundHookId;
use houston_domain::scope::Scope;
use houston_protocol::inbound_hook::InboundHookWithSecret;
use houston_protocol::webhook::RotateSecret;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::OptionalBody;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;
use crate::webhooks::secret;

endpoint! {
    ROTATE: post "/v1/inbound-hooks/{id}/secret" => rotate,
    tag = "webhooks",
    operation_id = "rotate_inbound_secret",
    summary = "Replace the secret of an inbound hook; for a time, the one before it is accepted, too.",
    description = "Needs the scope `post` besides `operate`.",
    params(("id" = houston_protocol::schema::InboundHookId, Path, description = "Id of the hook.")),
    request_body = RotateSecret,
    responses((status = 200, description = "The hook with its new secret.", body = InboundHookWithSecret)),
}

pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<InboundHookId>,
    OptionalBody(body): OptionalBody<RotateSecret>,
) -> Result<Json<InboundHookWithSecret>, ApiError> {
    caller.needs(Scope::Post)?;
    let old_until = secret::old_until(&app, body.value)?;
    let secret = secret::make(&app, caller.tenant(), &id.to_string())?;
    app.store(caller).rotate_inbound_secret(id, &secret.sealed, old_until).await?;
    let hook = app.store(caller).inbound_hook(id).await?;
    Ok(Json(InboundHookWithSecret { hook: response(&app, hook), secret: secret.text }))
}
