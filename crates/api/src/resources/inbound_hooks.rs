//! `/v1/inbound-hooks`, and `/hooks/{id}`: addresses at which other programs post messages to an agentable.

use std::time::Duration;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use houston_domain::id::{InboundHookId, shard};
use houston_domain::inbound_hook::{HookMessage, MAX_BYTES, MAX_ID, MAX_INSTRUCTIONS, name_problem};
use houston_domain::masks::Masks;
use houston_domain::scope::Scope;
use houston_domain::storable::storable;
use houston_protocol::inbound_hook::{
    CreateInboundHook, InboundHookList, InboundHookResponse, InboundHookWithSecret, ReceivedResponse,
};
use houston_protocol::webhook::RotateSecret;
use houston_store::inbound_hook::{InboundHook, ReceivedMessage};
use houston_web::webhook::ID;
use http_body_util::LengthLimitError;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;

use crate::request::agentable_path::NO_AGENTABLE;
use crate::request::prelude::*;
use crate::request::request_trace::Posting;
use crate::resources::webhooks::secret;
use crate::state::peers::Peer;

endpoints! {
    get "/v1/inbound-hooks" for TENANT.all(Scope::Operate) => list,
    "list_inbound_hooks" in "webhooks": "List the inbound hooks of an agentable, the oldest first.",
    params(("agentable_id" = AgentableId, Query, description = "Id of the agentable.")),
    200 "All its hooks." [InboundHookList];

    post "/v1/inbound-hooks" for TENANT.all(Scope::Operate) => create,
    "create_inbound_hook" in "webhooks": "Make an address at which another program posts messages to an agentable.",
    description = "Needs the scope `post` besides `operate`.",
    body [CreateInboundHook],
    201 "The hook; its secret cannot be read again." [InboundHookWithSecret],
    404 "`not_found`: there is no such agentable.",
    409 "`full`: the agentable has the maximum number of inbound hooks.";

    get "/v1/inbound-hooks/{id}" for TENANT.all(Scope::Operate) => async |ctx: Ctx, Id(id): Id<InboundHookId>|
        found(ctx.store().inbound_hook(id).await.map(|hook| response(&ctx, hook))),
    "get_inbound_hook" in "webhooks": "Get an inbound hook, without its secret.",
    200 "The hook." [InboundHookResponse];

    delete "/v1/inbound-hooks/{id}" for TENANT.all(Scope::Operate) =>
        async |ctx: Ctx, Id(id): Id<InboundHookId>| gone(ctx.store().delete_inbound_hook(id).await),
    "delete_inbound_hook" in "webhooks": "Delete an inbound hook.",
    204 "It is deleted.";

    post "/v1/inbound-hooks/{id}/secret" for TENANT.all(Scope::Operate) => rotate,
    "rotate_inbound_secret" in "webhooks": "Replace the secret of an inbound hook; for a time, the one before it is accepted, too.",
    description = "Needs the scope `post` besides `operate`.",
    body [RotateSecret],
    200 "The hook with its new secret." [InboundHookWithSecret];
}

/// The query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    #[serde(default)]
    agentable_id: String,
}

/// The inbound hooks of an agentable; there are at most 20.
async fn list(ctx: Ctx, Query(Of { agentable_id }): Query<Of>) -> Result<Json<InboundHookList>> {
    let path = AgentablePath::of_public_id(&ctx.state.agent_types, &agentable_id);
    let agentable = path.ok_or_else(|| ApiError::parameter("agentable_id", NO_AGENTABLE))?.id;
    let hooks = ctx.with_shard(shard(agentable)).store().inbound_hooks(agentable).await?;
    Ok(Json(InboundHookList { data: hooks.into_iter().map(|hook| response(&ctx, hook)).collect() }))
}

/// The response is the only place where the secret can be read, so requests are not repeated by their `Idempotency-Key`.
async fn create(ctx: Ctx, Sent(body): Sent<CreateInboundHook>) -> Result<impl IntoResponse> {
    // Who knows its secret posts messages.
    ctx.caller.needs(Scope::Post)?;
    if let Some(problem) = name_problem(&body.name) {
        return Err(ApiError::field("/name", problem));
    }
    check_text("/instructions", &body.instructions)?;
    if body.instructions.chars().count() > MAX_INSTRUCTIONS {
        let detail = format!("must have at most {MAX_INSTRUCTIONS} characters");
        return Err(ApiError::field("/instructions", detail));
    }
    let path = AgentablePath::of_field(&ctx.state.agent_types, "/agentable_id", &body.agentable_id)?;
    if !path.conversational {
        let detail = format!("agentables of kind `{}` take no messages", path.kind);
        return Err(ApiError::field("/agentable_id", detail));
    }
    let id: InboundHookId = ctx.state.ids.beside(path.id);
    let secret = secret::make(&ctx, ctx.caller.tenant(), &id.to_string())?;
    let hook = InboundHook {
        id,
        tenant: ctx.caller.tenant(),
        agentable: (path.id, path.kind),
        name: body.name,
        instructions: body.instructions,
        sealed: secret.sealed,
        old_sealed: None,
        old_until: None,
        created_at: ctx.now(),
    };
    ctx.with_shard(shard(path.id)).store().create_inbound_hook(&hook).await?;
    let created = InboundHookWithSecret { hook: response(&ctx, hook), secret: secret.text };
    Ok((StatusCode::CREATED, Json(created)))
}

async fn rotate(
    ctx: Ctx,
    Id(id): Id<InboundHookId>,
    OptionalBody(body): OptionalBody<RotateSecret>,
) -> Result<Json<InboundHookWithSecret>> {
    ctx.caller.needs(Scope::Post)?;
    let old_until = secret::old_until(&ctx, body.value)?;
    let secret = secret::make(&ctx, ctx.caller.tenant(), &id.to_string())?;
    ctx.store().rotate_inbound_secret(id, &secret.sealed, old_until).await?;
    let hook = ctx.store().inbound_hook(id).await?;
    Ok(Json(InboundHookWithSecret { hook: response(&ctx, hook), secret: secret.text }))
}

/// The path.
pub(crate) const PATH: &str = "/hooks/{id}";
/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Posts what another program has sent, if it is signed with the secret of the hook (Standard Webhooks), as a message that is
/// marked as what strangers wrote. The same `webhook-id` posts nothing a second time. Wrong signatures count as wrong keys do.
pub(crate) async fn receive(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<ReceivedResponse>)> {
    const NOT_FOUND: ApiError = ApiError::NotFound("inbound hook");
    let id = path.ok().and_then(|Path(id)| id.parse::<InboundHookId>().ok()).ok_or(NOT_FOUND)?;
    let attempt = app.peers.attempt(peer.as_deref())?;
    let body = timeout(BODY_TIMEOUT, to_bytes(body, MAX_BYTES)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let is_too_long = error.into_inner().is::<LengthLimitError>();
            let too_large = ApiError::BodyTooLarge(MAX_BYTES);
            return Err(if is_too_long { too_large } else { ApiError::BrokenBody });
        }
        Err(_) => return Err(ApiError::BodyMissing),
    };
    let (hook, store) = app.api_store().inbound_hook(id).await?.ok_or(NOT_FOUND)?;
    let what = id.to_string();
    let old = hook.old_sealed.as_deref().zip(hook.old_until);
    let secrets = secret::opened(&app, (hook.tenant, &what), &hook.sealed, old)?;
    let signer = secret::signer(&secrets)?;
    let now = app.now();
    let seconds = u64::try_from(now.timestamp()).unwrap_or(0);
    signer.verify(&headers, &body, seconds).map_err(ApiError::InvalidSignature)?;
    attempt.uncount();
    let webhook_id = headers.get(ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    if webhook_id.is_empty() || webhook_id.len() > MAX_ID {
        return Err(ApiError::field("", format!("`webhook-id` must have 1 to {MAX_ID} characters")));
    }
    let mut text = String::from_utf8(body.to_vec())
        .map_err(|_| ApiError::field("", "the body must be text in UTF-8, such as JSON"))?;
    storable(&mut text);
    // Some programs send their settings, too.
    let text = masks(&secrets).text(&text).into_owned();
    let (agentable, kind) = &hook.agentable;
    let posting = Posting::begin(app.urgency(kind));
    let message =
        HookMessage { hook: id, name: &hook.name, instructions: &hook.instructions, text: &text, webhook_id };
    let received = ReceivedMessage {
        webhook_id,
        message: app.state.ids.beside(*agentable),
        run: app.state.ids.beside(*agentable),
        content: &message.frame(),
        metadata: &message.metadata(),
        traceparent: posting.traceparent.as_deref(),
        now,
    };
    let (message_id, run) = store.receive(&hook, &received).await?;
    if let Some(run) = run {
        posting.end(message_id, run);
        app.publish_nudge(*agentable);
        app.send_hint(*agentable, app.urgency(kind));
    }
    Ok((StatusCode::ACCEPTED, Json(ReceivedResponse { message_id })))
}

/// What takes the secrets of a hook out of what is posted to it, with and without what their text begins with.
fn masks(secrets: &[SecretString]) -> Masks {
    let texts = secrets.iter().map(|secret| secret.expose_secret());
    Masks::of(texts.flat_map(|text| [Some(text), text.strip_prefix("whsec_")]).flatten())
}

/// A hook without its secrets.
fn response(app: &App, hook: InboundHook) -> InboundHookResponse {
    let now = app.now();
    let (agentable, kind) = &hook.agentable;
    InboundHookResponse {
        id: hook.id,
        agentable_id: agentable.public_id(kind),
        name: hook.name,
        instructions: hook.instructions,
        path: format!("/hooks/{}", hook.id),
        old_secret_until: hook.old_until.filter(|until| *until > now).map(Time),
        created_at: Time(hook.created_at),
    }
}
