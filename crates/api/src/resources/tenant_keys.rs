//! `/v1/keys`: the API keys of a tenant, without their secrets, and `/v1/key`: the key of the request itself. Keys are made by
//! `houston key create` and by signing in to the console, not over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::ApiKeyId;
use houston_protocol::key::{KeyResponse, OwnKeyResponse};
use houston_protocol::time::Time;
use houston_store::api_key::ApiKey;
use serde::Deserialize;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::Id;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[GET_OWN, LIST, REVOKE];

/// The query: page parameters and a filter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    active: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoint! {
    LIST: get "/v1/keys" for TENANT.all(Scope::Admin) => list,
    tag = "keys",
    operation_id = "list_keys",
    summary = "List the API keys of the tenant, newest first.",
    description = "Secrets are in no response, and client tokens are not listed. Keys of people who signed in to the console have their \
                   names, and are deleted 90 days after they ended.",
    params(
        ("active" = Option<bool>, Query, description = "`true`: only keys that are neither revoked nor expired."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of keys.", body = houston_protocol::page::Page<houston_protocol::key::KeyResponse>)),
}

async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    let active = match query.active.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::parameter("active", "must be `true` or `false`".to_owned())),
    };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Keys)?.map(ApiKeyId));
    let keys = app.store(caller).api_keys(active, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Keys, limit, keys, |key| key.id.0.as_u128(), response)))
}

endpoint! {
    REVOKE: post "/v1/keys/{id}/revoke" for TENANT.all(Scope::Admin) => revoke,
    tag = "keys",
    operation_id = "revoke_key",
    summary = "Revoke an API key for good, with the client tokens it has made.",
    description = "A key may revoke itself. A revoked key stays in the list.",
    params(("id" = houston_domain::id::ApiKeyId, Path, description = "Id of the key.")),
    responses((status = 200, description = "The revoked key.", body = KeyResponse)),
}

/// Its requests are refused, and its streams end, within `server.key_cache_s`.
async fn revoke(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<ApiKeyId>,
) -> Result<Json<KeyResponse>, ApiError> {
    Ok(Json(response(app.store(caller).revoke_api_key(id).await?)))
}

endpoint! {
    GET_OWN: get "/v1/key" for NAMED => get_own,
    tag = "keys",
    operation_id = "get_own_key",
    summary = "Get what the key of this request allows.",
    responses((status = 200, description = "The key.", body = OwnKeyResponse)),
}

/// What the key of the request allows, so that a front end offers only that.
async fn get_own(caller: Caller) -> Json<OwnKeyResponse> {
    Json(OwnKeyResponse {
        id: caller.key(),
        scopes: caller.scopes().iter().collect(),
        user_id: caller.user(),
    })
}

fn response(key: ApiKey) -> KeyResponse {
    let status = match key.revoked_at {
        Some(_) => "revoked",
        None if key.is_valid() => "active",
        None => "expired",
    };
    KeyResponse {
        id: key.id,
        name: key.name,
        prefix: key.prefix,
        status: status.to_owned(),
        scopes: key.scopes.iter().collect(),
        user_id: key.user,
        issuer: key.issuer.map(|issuer| issuer.issuer),
        created_at: Time(key.created_at),
        expires_at: key.expires_at.map(Time),
        revoked_at: key.revoked_at.map(Time),
        last_used_at: key.last_used_at.map(Time),
    }
}
