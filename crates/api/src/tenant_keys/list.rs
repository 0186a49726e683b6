//! `GET /v1/keys`: the keys of the tenant, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::ApiKeyId;
use serde::Deserialize;

use super::response;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

/// The query: page parameters and a filter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    active: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoint! {
    LIST: get "/v1/keys" => list,
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

pub(crate) async fn list(
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
