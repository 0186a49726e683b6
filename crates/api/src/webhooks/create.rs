//! `POST /v1/webhooks`: subscribes to events. The response is the only place where the secret can be read, so requests are not
//! repeated by their `Idempotency-Key`: a repeated one makes another webhook.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::{AgentableId, WebhookId, parse_prefixed, shard};
use houston_domain::scope::Scope;
use houston_protocol::webhook::{CreateWebhook, WebhookWithSecret};
use houston_store::webhook::NewWebhook;
use uuid::Uuid;

use super::{check_description, check_topics, check_url, response, secret};
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;
use crate::tool_sources::put::check_kinds;

endpoint! {
    CREATE: post "/v1/webhooks" => create,
    tag = "webhooks",
    operation_id = "create_webhook",
    summary = "Have events sent to an address of yours.",
    description = "Needs the scope `read` besides `operate`: events have contents.",
    request_body = CreateWebhook,
    responses(
        (status = 201, description = "The webhook; its secret cannot be read again.", body = WebhookWithSecret),
        (status = 404, description = "`not_found`: there is no such user or agentable."),
        (status = 409, description = "`full`: the tenant has the maximum number of webhooks.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Creation { value: body, key: _ }: Creation<CreateWebhook>,
) -> Result<impl IntoResponse, ApiError> {
    // Its events have contents.
    caller.needs(Scope::Read)?;
    check_url(&app, &body.url)?;
    check_topics(&body.topics)?;
    check_description(&body.description)?;
    let (kind, agentable) = agentable(&app, &body)?;
    if let Some(user) = body.user_id {
        check_exists(&app, caller, user.0, "user").await?;
    }
    if let Some(agentable) = agentable {
        check_exists(&app, caller, agentable.0, "agentable").await?;
    }
    let id: WebhookId = app.state.ids.next();
    let secret = secret::make(&app, caller.tenant(), &id.to_string())?;
    let new = NewWebhook {
        id,
        url: &body.url,
        description: &body.description,
        topics: &body.topics,
        user: body.user_id,
        kind: kind.as_deref(),
        agentable,
        sealed: &secret.sealed,
    };
    let webhook = app.store(caller).create_webhook(&new).await?;
    let created = WebhookWithSecret { webhook: response(&app, webhook), secret: secret.text };
    Ok((StatusCode::CREATED, Json(created)))
}

/// The kind and the agentable that the webhook is restricted to.
fn agentable(app: &App, body: &CreateWebhook) -> Result<(Option<String>, Option<AgentableId>), ApiError> {
    if let Some(kind) = &body.kind {
        check_kinds(app, std::slice::from_ref(kind)).map_err(|_| {
            let all: Vec<&str> = app.state.agent_types.keys().map(String::as_str).collect();
            ApiError::field("/kind", format!("there is no such kind; there are: {}", all.join(", ")))
        })?;
    }
    let Some(id) = &body.agentable_id else { return Ok((body.kind.clone(), None)) };
    let kind = id.rsplit_once('_').map_or("", |(kind, _)| kind);
    let parsed = app.state.agent_types.get(kind).and_then(|_| parse_prefixed(kind, id).ok());
    let wrong = "must be the id of an agentable, as in `goal_…`";
    let parsed = parsed.ok_or_else(|| ApiError::field("/agentable_id", wrong))?;
    if body.kind.as_ref().is_some_and(|other| other != kind) {
        return Err(ApiError::field("/kind", format!("the agentable has the kind `{kind}`")));
    }
    Ok((Some(kind.to_owned()), Some(parsed.into())))
}

async fn check_exists(app: &Arc<App>, caller: Caller, id: Uuid, what: &'static str) -> Result<(), ApiError> {
    let has = app.with_shard(shard(id)).store(caller).has_event_owner(id).await?;
    if has { Ok(()) } else { Err(ApiError::NotFound { what }) }
}
