//! `GET /v1/webhooks/{id}/deliveries?state=`: what was sent, waits, or was given up, the newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::WebhookId;
use houston_protocol::time::Time;
use houston_protocol::webhook::DeliveryResponse;
use houston_store::webhook_delivery::Delivery;
use serde::Deserialize;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

/// The query: page parameters and a state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    state: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

const STATES: [&str; 3] = ["pending", "delivered", "dead"];

endpoint! {
    LIST: get "/v1/webhooks/{id}/deliveries" => list,
    tag = "webhooks",
    operation_id = "list_deliveries",
    summary = "List the deliveries of a webhook, the newest first.",
    params(
        ("id" = houston_protocol::schema::WebhookId, Path, description = "Id of the webhook."),
        ("state" = Option<String>, Query, description = "Only deliveries in this state: `pending`, `delivered` or `dead`."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of deliveries.", body = houston_protocol::page::Page<DeliveryResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<WebhookId>,
    Query(Filter { state, limit, cursor }): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    if state.as_deref().is_some_and(|state| !STATES.contains(&state)) {
        return Err(ApiError::parameter("state", format!("must be {}", STATES.join(", "))));
    }
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.id(List::Deliveries)?.map(Into::into));
    app.store(caller).webhook(id).await?;
    let found = app.store(caller).deliveries(id, state.as_deref(), before, rows(limit)).await?;
    Ok(Json(Page::of(List::Deliveries, limit, found, |row| row.id.0.as_u128(), response)))
}

fn response(delivery: Delivery) -> DeliveryResponse {
    let (agentable, kind) = &delivery.agentable;
    DeliveryResponse {
        id: delivery.id,
        event_id: format!("{}:{}", agentable.public_id(kind), delivery.seq),
        topic: delivery.topic,
        state: delivery.state,
        attempts: delivery.attempts,
        status: delivery.status,
        error: delivery.error,
        created_at: Time(delivery.created_at),
        attempted_at: delivery.attempted_at.map(Time),
    }
}
