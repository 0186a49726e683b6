//! `/v1/keys`: the API keys of a tenant, without their secrets, and `/v1/key`: the key of the request itself. Keys are made by
//! `houston key create` and by signing in to the console, not over HTTP.

use houston_domain::id::ApiKeyId;
use houston_protocol::key::{KeyResponse, OwnKeyResponse};
use houston_store::api_key::ApiKey;

use crate::caller::Caller;
use crate::request::prelude::*;

endpoints! {
    get "/v1/key" for NAMED => get_own,
    "get_own_key" in "keys": "Get what the key of this request allows.",
    200 "The key." [OwnKeyResponse];

    get "/v1/keys" for TENANT.all(Scope::Admin) => list,
    "list_keys" in "keys": "List the API keys of the tenant, newest first.",
    description = "Secrets are in no response, and client tokens are not listed. Keys of people who signed in to the console have their \
                   names, and are deleted 90 days after they ended.",
    params(
        ("active" = Option<bool>, Query, description = "`true`: only keys that are neither revoked nor expired."),
        Paged,
    ),
    200 "A page of keys." [Page<houston_protocol::key::KeyResponse>];

    // Its requests are refused, and its streams end, within `server.key_cache_s`.
    post "/v1/keys/{id}/revoke" for TENANT.all(Scope::Admin) =>
        async |ctx: Ctx, Id(id): Id<ApiKeyId>| found(ctx.store().revoke_api_key(id).await.map(response)),
    "revoke_key" in "keys": "Revoke an API key for good, with the client tokens it has made.",
    description = "A key may revoke itself. A revoked key stays in the list.",
    200 "The revoked key." [KeyResponse];
}

/// The query: page parameters and a filter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    active: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

async fn list(ctx: Ctx, Query(query): Query<Filter>) -> Result<impl IntoResponse> {
    let active = match query.active.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::parameter("active", "must be `true` or `false`".to_owned())),
    };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Keys)?.map(ApiKeyId));
    let keys = ctx.store().api_keys(active, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Keys, limit, keys, |key| key.id.0.as_u128(), response)))
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
