//! Grants: the lasting yes of people for tools. Given with the answer to an approval (`remember`); listed and revoked here.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::{GrantId, UserId};
use houston_protocol::grant::GrantResponse;
use houston_protocol::time::Time;
use houston_store::grants::StoredGrant;
use serde_json::Value;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::Id;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST, REVOKE];

endpoint! {
    LIST: get "/v1/users/{id}/grants" for USER => list,
    tag = "guards",
    operation_id = "list_grants",
    summary = "List what a user has allowed for good, newest first.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of grants.", body = houston_protocol::page::Page<GrantResponse>)),
}

async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Grants)?.map(GrantId));
    app.store(caller).user(user).await?;
    let grants = app.store(caller).grants(user, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Grants, limit, grants, |row| row.id.0.as_u128(), response)))
}

fn response(stored: StoredGrant) -> GrantResponse {
    let when = serde_json::to_value(stored.grant.when).unwrap_or_default();
    GrantResponse {
        id: stored.id,
        user_id: stored.user,
        agentable: stored.agentable.map(|(kind, id)| id.public_id(&kind)),
        tool: stored.grant.tool,
        when: if let Value::Object(when) = when { when } else { serde_json::Map::new() },
        granted_by: stored.granted_by,
        created_at: Time(stored.created_at),
    }
}

endpoint! {
    REVOKE: delete "/v1/grants/{id}" for ROW => revoke,
    tag = "guards",
    operation_id = "revoke_grant",
    summary = "Revoke a lasting yes.",
    params(("id" = houston_domain::id::GrantId, Path, description = "Id of the grant.")),
    responses((status = 204, description = "The grant is revoked.")),
}

/// Calls that it covered are asked about again.
async fn revoke(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<GrantId>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).revoke_grant(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
