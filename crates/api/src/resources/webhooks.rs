//! `/v1/webhooks`: subscriptions of the tenant to events, which workers deliver to its addresses, and their deliveries.

pub(crate) mod secret;

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use bytes::Bytes;
use houston_domain::event::topic::{MAX_PATTERNS, TopicPattern};
use houston_domain::id::{AgentableId, DeliveryId, WebhookId, parse_prefixed, shard};
use houston_domain::scope::Scope;
use houston_protocol::cloud_event::{CONTENT_TYPE, CloudEvent};
use houston_protocol::time::Time;
use houston_protocol::webhook::{
    CreateWebhook, ReplayWebhook, RotateSecret, UpdateWebhook, WebhookList, WebhookResponse,
    WebhookTestResponse, WebhookWithSecret,
};
use houston_store::webhook::{NewWebhook, Webhook, WebhookChange};
use houston_web::sink::Message;
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::admission;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::{Id, params};
use crate::request::body::{Creation, OptionalBody};
use crate::request::checks::{check_size, check_text};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::resources::fields::Change;
use crate::resources::tool_sources::check_kinds;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] =
    &[LIST, CREATE, GET, CHANGE, DELETE, ROTATE, TEST, LIST_DELIVERIES, REDELIVER, REPLAY];

/// Maximum length of a description, in bytes.
const MAX_DESCRIPTION: usize = 2_000;

endpoint! {
    LIST: get "/v1/webhooks" for TENANT.all(Scope::Operate) => list,
    tag = "webhooks",
    operation_id = "list_webhooks",
    summary = "List the webhooks of the tenant, the oldest first.",
    responses((status = 200, description = "All webhooks.", body = WebhookList)),
}

/// All webhooks of the tenant; there are at most 100.
async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<Json<WebhookList>, ApiError> {
    let webhooks = app.store(caller).webhooks().await?;
    Ok(Json(WebhookList { data: webhooks.into_iter().map(|webhook| response(&app, webhook)).collect() }))
}

endpoint! {
    CREATE: post "/v1/webhooks" for TENANT.all(Scope::Operate) => create,
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

/// The response is the only place where the secret can be read, so requests are not repeated by their `Idempotency-Key`:
/// a repeated one makes another webhook.
async fn create(
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

endpoint! {
    GET: get "/v1/webhooks/{id}" for TENANT.all(Scope::Operate) => get,
    tag = "webhooks",
    operation_id = "get_webhook",
    summary = "Get a webhook, without its secret.",
    params(("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook.")),
    responses((status = 200, description = "The webhook.", body = WebhookResponse)),
}

async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookResponse>, ApiError> {
    let webhook = app.store(caller).webhook(id).await?;
    Ok(Json(response(&app, webhook)))
}

endpoint! {
    CHANGE: patch "/v1/webhooks/{id}" for TENANT.all(Scope::Operate) => change,
    tag = "webhooks",
    operation_id = "update_webhook",
    summary = "Change a webhook, or switch it off and on again.",
    description = "Another URL or other topics need the scope `read` besides `operate`: events have contents.",
    params(("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook.")),
    request_body = UpdateWebhook,
    responses((status = 200, description = "The webhook.", body = WebhookResponse)),
}

async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    Change(body): Change<UpdateWebhook>,
) -> Result<Json<WebhookResponse>, ApiError> {
    if body.url.is_some() || body.topics.is_some() {
        caller.needs(Scope::Read)?;
    }
    body.url.as_deref().map_or(Ok(()), |url| check_url(&app, url))?;
    body.topics.as_deref().map_or(Ok(()), check_topics)?;
    body.description.as_deref().map_or(Ok(()), check_description)?;
    let change = WebhookChange {
        url: body.url.as_deref(),
        description: body.description.as_deref(),
        topics: body.topics.as_deref(),
        enabled: body.enabled,
    };
    let webhook = app.store(caller).change_webhook(id, change, app.now()).await?;
    Ok(Json(response(&app, webhook)))
}

endpoint! {
    DELETE: delete "/v1/webhooks/{id}" for TENANT.all(Scope::Operate) => delete,
    tag = "webhooks",
    operation_id = "delete_webhook",
    summary = "Delete a webhook with its deliveries.",
    params(("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook.")),
    responses((status = 204, description = "It is deleted. An event that is being sent may still arrive.")),
}

async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_webhook(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

endpoint! {
    ROTATE: post "/v1/webhooks/{id}/secret" for TENANT.all(Scope::Operate) => rotate,
    tag = "webhooks",
    operation_id = "rotate_webhook_secret",
    summary = "Replace the secret of a webhook; for a time, the one before it signs, too.",
    params(("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook.")),
    request_body = RotateSecret,
    responses((status = 200, description = "The webhook with its new secret.", body = WebhookWithSecret)),
}

/// For a time both secrets sign, so that receivers can change without a gap.
async fn rotate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    OptionalBody(body): OptionalBody<RotateSecret>,
) -> Result<Json<WebhookWithSecret>, ApiError> {
    let old_until = secret::old_until(&app, body.value)?;
    let secret = secret::make(&app, caller.tenant(), &id.to_string())?;
    let rotated = app.store(caller).rotate_webhook_secret(id, &secret.sealed, old_until, app.now()).await?;
    Ok(Json(WebhookWithSecret { webhook: response(&app, rotated), secret: secret.text }))
}

endpoint! {
    TEST: post "/v1/webhooks/{id}/test" for TENANT.all(Scope::Operate) => test,
    tag = "webhooks",
    operation_id = "test_webhook",
    summary = "Send a test event to a webhook, also if it is switched off.",
    params(("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook.")),
    responses((status = 200, description = "What the receiver answered.", body = WebhookTestResponse)),
}

/// Sends an event `webhook.test` at once, and answers what the receiver said.
async fn test(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookTestResponse>, ApiError> {
    let webhook = app.store(caller).webhook(id).await?;
    let what = id.to_string();
    let old = webhook.old_sealed.as_deref().zip(webhook.old_until);
    let signer = secret::signer(&secret::opened(&app, (caller.tenant(), &what), &webhook.sealed, old)?)?;
    let event_id = app.state.ids.next::<DeliveryId>().to_string().replace("delivery_", "test_");
    let source = format!("/v1/webhooks/{id}");
    let event = CloudEvent::plain(event_id.clone(), source, "webhook.test", Time(app.now()));
    let body = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
    let message =
        Message { url: &webhook.url, id: &event_id, body, content_type: CONTENT_TYPE, traceparent: None };
    let began = Instant::now();
    // The answer comes within the time of a request.
    let limit = app.state.config.request_timeout().mul_f32(0.8);
    admission::give_back();
    let attempt = timeout(limit, app.state.sinks.send(&message, &signer, app.now())).await;
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

endpoint! {
    LIST_DELIVERIES: get "/v1/webhooks/{id}/deliveries" for TENANT.all(Scope::Operate) => list_deliveries,
    tag = "webhooks",
    operation_id = "list_deliveries",
    summary = "List the deliveries of a webhook, the newest first.",
    params(
        ("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook."),
        ("state" = Option<String>, Query, description = "Only deliveries in this state: `pending`, `delivered` or `dead`."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of deliveries.", body = houston_protocol::page::Page<houston_domain::webhook::Delivery>)),
}

/// What was sent, waits, or was given up, the newest first.
async fn list_deliveries(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    Query(DeliveryFilter { state, limit, cursor }): Query<DeliveryFilter>,
) -> Result<impl IntoResponse, ApiError> {
    if state.as_deref().is_some_and(|state| !STATES.contains(&state)) {
        return Err(ApiError::parameter("state", format!("must be {}", STATES.join(", "))));
    }
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.id(List::Deliveries)?.map(Into::into));
    app.store(caller).webhook(id).await?;
    let found = app.store(caller).deliveries(id, state.as_deref(), before, rows(limit)).await?;
    Ok(Json(Page::of(List::Deliveries, limit, found, |row| row.id.0.as_u128(), |row| row)))
}

/// The webhook and the delivery of a path.
struct DeliveryPath(WebhookId, DeliveryId);

impl<S: Send + Sync> FromRequestParts<S> for DeliveryPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "delivery" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let param = |name| params.iter().find(|(of, _)| *of == name).map_or("", |(_, value)| value);
        match (param("id").parse(), param("delivery_id").parse()) {
            (Ok(webhook), Ok(delivery)) => Ok(Self(webhook, delivery)),
            _ => Err(NOT_FOUND),
        }
    }
}

endpoint! {
    REDELIVER: post "/v1/webhooks/{id}/deliveries/{delivery_id}/redeliver" for TENANT.all(Scope::Operate) => redeliver,
    tag = "webhooks",
    operation_id = "redeliver",
    summary = "Send an event to a webhook again, whatever became of it.",
    params(
        ("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook."),
        ("delivery_id" = houston_domain::id::DeliveryId, Path, description = "Id of the delivery.")
    ),
    responses((status = 202, description = "It is sent again, after those of its agentable that wait.")),
}

async fn redeliver(
    State(app): State<Arc<App>>,
    caller: Caller,
    DeliveryPath(webhook, delivery): DeliveryPath,
) -> Result<StatusCode, ApiError> {
    app.store(caller).redeliver(webhook, delivery, app.now()).await?;
    Ok(StatusCode::ACCEPTED)
}

endpoint! {
    REPLAY: post "/v1/webhooks/{id}/replay" for TENANT.all(Scope::Operate) => replay,
    tag = "webhooks",
    operation_id = "replay_webhook",
    summary = "Send all events again that have happened since a time and that the webhook is for.",
    params(("id" = houston_domain::id::WebhookId, Path, description = "Id of the webhook.")),
    request_body = ReplayWebhook,
    responses((status = 202, description = "Their deliveries are made in the background. Events that were delivered before come again, with the same id.")),
}

async fn replay(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    Creation { value: body, key: _ }: Creation<ReplayWebhook>,
) -> Result<StatusCode, ApiError> {
    let now = app.now();
    if body.since.0 > now {
        return Err(ApiError::field("/since", "must not be in the future"));
    }
    for cell in app.all_cells() {
        cell.store(caller).request_replay(id, body.since.0, now).await?;
    }
    Ok(StatusCode::ACCEPTED)
}

/// # Errors
/// [`ApiError::InvalidRequest`] when events must not be sent there.
fn check_url(app: &App, url: &str) -> Result<(), ApiError> {
    check_text("/url", url)?;
    app.state.sinks.judge(url).map_err(|reason| ApiError::field("/url", reason))
}

/// # Errors
/// [`ApiError::InvalidRequest`] that names the pattern which is none.
fn check_topics(topics: &[String]) -> Result<(), ApiError> {
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
fn check_description(description: &str) -> Result<(), ApiError> {
    check_size("/description", description.len(), MAX_DESCRIPTION)?;
    check_text("/description", description)
}

/// A webhook without its secrets.
fn response(app: &App, webhook: Webhook) -> WebhookResponse {
    let now = app.now();
    let old_until = webhook.old_until.filter(|until| *until > now);
    // The kind of an agentable is that of the filter, which is stored with it.
    let kind = webhook.kind.clone().unwrap_or_default();
    WebhookResponse {
        id: webhook.id,
        url: webhook.url,
        topics: webhook.topics,
        description: webhook.description,
        user_id: webhook.user,
        agentable_id: webhook.agentable.map(|agentable| agentable.public_id(&kind)),
        kind: webhook.kind,
        enabled: webhook.enabled,
        disabled_because: webhook.disabled_because,
        old_secret_until: old_until.map(Time),
        created_at: Time(webhook.created_at),
        updated_at: Time(webhook.updated_at),
    }
}
