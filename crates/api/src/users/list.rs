//! `GET /v1/users?external_id=`: users, newest first; with an external id, only the user who has it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::{AgentableId, UserId};
use houston_store::user::User;
use serde::Deserialize;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;
use crate::users::response;

/// The query: page parameters and an external id.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    external_id: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoint! {
    LIST: get "/v1/users" => list,
    tag = "users",
    operation_id = "list_users",
    summary = "List users, newest first, or find a user by external id.",
    params(
        ("external_id" = Option<String>, Query, description = "Only the user with this external id."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of users.", body = houston_protocol::page::Page<houston_protocol::user::UserResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    let Filter { external_id, limit, cursor } = query;
    if external_id.as_deref().is_some_and(|id| id.contains('\0')) {
        return Err(ApiError::parameter("external_id", "must not contain the character U+0000"));
    }
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.id(List::Users)?.map(Into::into));
    let users = app.store(caller).users(external_id.as_deref(), before, rows(limit)).await?;
    let ids: Vec<UserId> = users.iter().take(limit).map(|user| user.id).collect();
    let mut own: HashMap<UserId, Vec<(String, AgentableId)>> = HashMap::new();
    for (user, kind, id) in app.store(caller).own_agentables_of(&ids).await? {
        own.entry(user).or_default().push((kind, id));
    }
    let response = |user: User| {
        let own = own.get(&user.id).map(Vec::as_slice).unwrap_or_default();
        response(user.clone(), own.iter().map(|(kind, id)| (kind.as_str(), *id)))
    };
    Ok(Json(Page::of(List::Users, limit, users, |row| row.id.0.as_u128(), response)))
}
