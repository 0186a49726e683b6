//! `/v1/webhooks`: subscriptions of the tenant to events, which workers deliver to its addresses, and their deliveries.

pub(crate) mod secret;

use bytes::Bytes;
use houston_domain::event::topic::{MAX_PATTERNS, TopicPattern};
use houston_domain::id::{AgentableId, DeliveryId, WebhookId, shard};
use houston_domain::scope::Scope;
use houston_domain::webhook::Webhook;
use houston_protocol::cloud_event::{CONTENT_TYPE, CloudEvent};
use houston_protocol::webhook::{
    CreateWebhook, ReplayWebhook, RotateSecret, UpdateWebhook, WebhookList, WebhookResponse,
    WebhookTestResponse, WebhookWithSecret,
};
use houston_store::webhook::NewWebhook;
use houston_web::sink::Message;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::admission;
use crate::request::agentable_path::from_path;
use crate::request::prelude::*;
use crate::resources::tool_sources::check_kinds;

endpoints! {
    get "/v1/webhooks" for TENANT.all(Scope::Operate) => list,
    "list_webhooks" in "webhooks": "List the webhooks of the tenant, the oldest first.",
    200 "All webhooks." [WebhookList];

    post "/v1/webhooks" for TENANT.all(Scope::Operate) => create,
    "create_webhook" in "webhooks": "Have events sent to an address of yours.",
    description = "Needs the scope `read` besides `operate`: events have contents.",
    body [CreateWebhook],
    201 "The webhook; its secret cannot be read again." [WebhookWithSecret],
    404 "`not_found`: there is no such user or agentable.",
    409 "`full`: the tenant has the maximum number of webhooks.";

    get "/v1/webhooks/{id}" for TENANT.all(Scope::Operate) => async |ctx: Ctx, Id(id): Id<WebhookId>|
        found(ctx.store().webhook(id).await.map(|webhook| response(&ctx, webhook))),
    "get_webhook" in "webhooks": "Get a webhook, without its secret.",
    200 "The webhook." [WebhookResponse];

    patch "/v1/webhooks/{id}" for TENANT.all(Scope::Operate) => change,
    "update_webhook" in "webhooks": "Change a webhook, or switch it off and on again.",
    description = "Another URL or other topics need the scope `read` besides `operate`: events have contents.",
    body [UpdateWebhook],
    200 "The webhook." [WebhookResponse];

    delete "/v1/webhooks/{id}" for TENANT.all(Scope::Operate) =>
        async |ctx: Ctx, Id(id): Id<WebhookId>| gone(ctx.store().delete_webhook(id).await),
    "delete_webhook" in "webhooks": "Delete a webhook with its deliveries.",
    204 "It is deleted. An event that is being sent may still arrive.";

    post "/v1/webhooks/{id}/secret" for TENANT.all(Scope::Operate) => rotate,
    "rotate_webhook_secret" in "webhooks": "Replace the secret of a webhook; for a time, the one before it signs, too.",
    body [RotateSecret],
    200 "The webhook with its new secret." [WebhookWithSecret];

    post "/v1/webhooks/{id}/test" for TENANT.all(Scope::Operate) => test,
    "test_webhook" in "webhooks": "Send a test event to a webhook, also if it is switched off.",
    200 "What the receiver answered." [WebhookTestResponse];

    get "/v1/webhooks/{id}/deliveries" for TENANT.all(Scope::Operate) => list_deliveries,
    "list_deliveries" in "webhooks": "List the deliveries of a webhook, the newest first.",
    params(
        ("state" = Option<String>, Query, description = "Only deliveries in this state: `pending`, `delivered` or `dead`."),
        Paged,
    ),
    200 "A page of deliveries." [Page<houston_domain::webhook::Delivery>];

    post "/v1/webhooks/{id}/deliveries/{delivery_id}/redeliver" for TENANT.all(Scope::Operate) => redeliver,
    "redeliver" in "webhooks": "Send an event to a webhook again, whatever became of it.",
    params(("delivery_id" = DeliveryId, Path, description = "Id of the delivery.")),
    202 "It is sent again, after those of its agentable that wait.";

    post "/v1/webhooks/{id}/replay" for TENANT.all(Scope::Operate) => replay,
    "replay_webhook" in "webhooks": "Send all events again that have happened since a time and that the webhook is for.",
    body [ReplayWebhook],
    202 "Their deliveries are made in the background. Events that were delivered before come again, with the same id.";
}

/// Maximum length of a description, in bytes.
const MAX_DESCRIPTION: usize = 2_000;

/// All webhooks of the tenant; there are at most 100.
async fn list(ctx: Ctx) -> Result<Json<WebhookList>> {
    let webhooks = ctx.store().webhooks().await?;
    Ok(Json(WebhookList { data: webhooks.into_iter().map(|webhook| response(&ctx, webhook)).collect() }))
}

/// The response is the only place where the secret can be read, so requests are not repeated by their `Idempotency-Key`:
/// a repeated one makes another webhook.
async fn create(ctx: Ctx, Sent(body): Sent<CreateWebhook>) -> Result<impl IntoResponse> {
    // Its events have contents.
    ctx.caller.needs(Scope::Read)?;
    check_url(&ctx, &body.url)?;
    check_topics(&body.topics)?;
    check_description(&body.description)?;
    let (kind, agentable) = agentable(&ctx, &body)?;
    if let Some(user) = body.user_id {
        check_exists(&ctx, user.0, "user").await?;
    }
    if let Some(agentable) = agentable {
        check_exists(&ctx, agentable.0, "agentable").await?;
    }
    let id: WebhookId = ctx.state.ids.next();
    let secret = secret::make(&ctx, ctx.caller.tenant(), &id.to_string())?;
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
    let webhook = ctx.store().create_webhook(&new).await?;
    let created = WebhookWithSecret { webhook: response(&ctx, webhook), secret: secret.text };
    Ok((StatusCode::CREATED, Json(created)))
}

/// The kind and the agentable that the webhook is restricted to.
fn agentable(app: &App, body: &CreateWebhook) -> Result<(Option<String>, Option<AgentableId>)> {
    if let Some(kind) = &body.kind {
        check_kinds(app, std::slice::from_ref(kind)).map_err(|_| {
            let all: Vec<&str> = app.state.agent_types.keys().map(String::as_str).collect();
            ApiError::field("/kind", format!("there is no such kind; there are: {}", all.join(", ")))
        })?;
    }
    let Some(id) = &body.agentable_id else { return Ok((body.kind.clone(), None)) };
    let path = AgentablePath::of_field(&app.state.agent_types, "/agentable_id", id)?;
    if body.kind.as_ref().is_some_and(|other| *other != path.kind) {
        return Err(ApiError::field("/kind", format!("the agentable has the kind `{}`", path.kind)));
    }
    Ok((Some(path.kind), Some(path.id)))
}

async fn check_exists(ctx: &Ctx, id: Uuid, what: &'static str) -> Result<()> {
    let has = ctx.with_shard(shard(id)).store().has_event_owner(id).await?;
    if has { Ok(()) } else { Err(ApiError::NotFound(what)) }
}

async fn change(
    ctx: Ctx,
    Id(id): Id<WebhookId>,
    Change(body): Change<UpdateWebhook>,
) -> Result<Json<WebhookResponse>> {
    if body.url.is_some() || body.topics.is_some() {
        ctx.caller.needs(Scope::Read)?;
    }
    body.url.as_deref().map_or(Ok(()), |url| check_url(&ctx, url))?;
    body.topics.as_deref().map_or(Ok(()), check_topics)?;
    body.description.as_deref().map_or(Ok(()), check_description)?;
    let webhook = ctx.store().change_webhook(id, &body, ctx.now()).await?;
    Ok(Json(response(&ctx, webhook)))
}

/// For a time both secrets sign, so that receivers can change without a gap.
async fn rotate(
    ctx: Ctx,
    Id(id): Id<WebhookId>,
    OptionalBody(body): OptionalBody<RotateSecret>,
) -> Result<Json<WebhookWithSecret>> {
    let old_until = secret::old_until(&ctx, body.value)?;
    let secret = secret::make(&ctx, ctx.caller.tenant(), &id.to_string())?;
    let rotated = ctx.store().rotate_webhook_secret(id, &secret.sealed, old_until, ctx.now()).await?;
    Ok(Json(WebhookWithSecret { webhook: response(&ctx, rotated), secret: secret.text }))
}

/// Sends an event `webhook.test` at once, and answers what the receiver said.
async fn test(ctx: Ctx, Id(id): Id<WebhookId>) -> Result<Json<WebhookTestResponse>> {
    let webhook = ctx.store().webhook(id).await?;
    let what = id.to_string();
    let old = webhook.old_sealed.as_deref().zip(webhook.old_secret_until.map(|until| until.0));
    let signer = secret::signer(&secret::opened(&ctx, (ctx.caller.tenant(), &what), &webhook.sealed, old)?)?;
    let event_id = ctx.state.ids.next::<DeliveryId>().to_string().replace("delivery_", "test_");
    let source = format!("/v1/webhooks/{id}");
    let event = CloudEvent::plain(event_id.clone(), source, "webhook.test", Time(ctx.now()));
    let body = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
    let message =
        Message { url: &webhook.url, id: &event_id, body, content_type: CONTENT_TYPE, traceparent: None };
    let began = Instant::now();
    // The answer comes within the time of a request.
    let limit = ctx.state.config.request_timeout().mul_f32(0.8);
    admission::give_back();
    let attempt = timeout(limit, ctx.state.sinks.send(&message, &signer, ctx.now())).await;
    let (status, error) = match attempt {
        Ok(attempt) => (attempt.status, attempt.error),
        Err(_) => (None, Some(format!("the receiver did not answer within {} s", limit.as_secs()))),
    };
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Json(WebhookTestResponse { accepted: error.is_none(), status, error, duration_ms }))
}

/// The query: page parameters and a state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeliveryFilter {
    state: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

const STATES: [&str; 3] = ["pending", "delivered", "dead"];

/// What was sent, waits, or was given up, the newest first.
async fn list_deliveries(
    ctx: Ctx,
    Id(id): Id<WebhookId>,
    Query(DeliveryFilter { state, limit, cursor }): Query<DeliveryFilter>,
) -> Result<impl IntoResponse> {
    if state.as_deref().is_some_and(|state| !STATES.contains(&state)) {
        return Err(ApiError::parameter("state", format!("must be {}", STATES.join(", "))));
    }
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.id(List::Deliveries)?.map(Into::into));
    ctx.store().webhook(id).await?;
    let found = ctx.store().deliveries(id, state.as_deref(), before, rows(limit)).await?;
    Ok(Json(Page::of(List::Deliveries, limit, found, |row| row.id.0.as_u128(), |row| row)))
}

/// The webhook and the delivery of a path.
struct DeliveryPath(WebhookId, DeliveryId);

from_path! { DeliveryPath, |parts| {
    let mut param = |name| param(parts, name).unwrap_or_default();
    match (param("id").parse(), param("delivery_id").parse()) {
        (Ok(webhook), Ok(delivery)) => Ok(Self(webhook, delivery)),
        _ => Err(ApiError::NotFound("delivery")),
    }
} }

async fn redeliver(ctx: Ctx, DeliveryPath(webhook, delivery): DeliveryPath) -> Result<StatusCode> {
    ctx.store().redeliver(webhook, delivery, ctx.now()).await?;
    Ok(StatusCode::ACCEPTED)
}

async fn replay(ctx: Ctx, Id(id): Id<WebhookId>, Sent(body): Sent<ReplayWebhook>) -> Result<StatusCode> {
    let now = ctx.now();
    ensure!(body.since.0 <= now, ApiError::field("/since", "must not be in the future"));
    for cell in ctx.all_cells() {
        cell.store(ctx.caller).request_replay(id, body.since.0, now).await?;
    }
    Ok(StatusCode::ACCEPTED)
}

/// # Errors
/// [`ApiError::InvalidRequest`] when events must not be sent there.
fn check_url(app: &App, url: &str) -> Result<()> {
    check_text("/url", url)?;
    app.state.sinks.judge(url).map_err(|reason| ApiError::field("/url", reason))
}

/// # Errors
/// [`ApiError::InvalidRequest`] that names the pattern which is none.
fn check_topics(topics: &[String]) -> Result<()> {
    if topics.is_empty() || topics.len() > MAX_PATTERNS {
        return Err(ApiError::field("/topics", format!("must have 1 to {MAX_PATTERNS} patterns")));
    }
    for (nth, topic) in topics.iter().enumerate() {
        topic
            .parse::<TopicPattern>()
            .map_err(|error| ApiError::field(&format!("/topics/{nth}"), error.to_string()))?;
    }
    Ok(())
}

/// # Errors
/// [`ApiError::InvalidRequest`] when it is too long, or Postgres could not store it.
fn check_description(description: &str) -> Result<()> {
    check_size("/description", description.len(), MAX_DESCRIPTION)?;
    check_text("/description", description)
}

/// The webhook as it is answered: a secret that no longer signs is not spoken of.
fn response(app: &App, webhook: Webhook) -> Webhook {
    let now = app.now();
    Webhook { old_secret_until: webhook.old_secret_until.filter(|until| until.0 > now), ..webhook }
}
