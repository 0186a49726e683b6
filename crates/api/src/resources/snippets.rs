//! `/v1/users/{id}/snippets`: code that agents keep for a user. Agents write it; people read and delete it here.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_domain::snippet::{self, SnippetEntry};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::{Id, params};
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{HexText, List, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST, GET, DELETE];

/// Extracts `name` from the path of the request. No snippet has a name that is not one of a snippet.
#[derive(Debug, Clone)]
struct SnippetName(String);

impl<S: Send + Sync> FromRequestParts<S> for SnippetName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        const NOT_FOUND: ApiError = ApiError::NotFound { what: "snippet" };
        let params = params(parts).ok_or(NOT_FOUND)?;
        let name = params.iter().find(|(param, _)| *param == "name").map(|(_, name)| name.to_owned());
        name.filter(|name| snippet::check_name(name).is_ok()).map(Self).ok_or(NOT_FOUND)
    }
}

endpoint! {
    LIST: get "/v1/users/{id}/snippets" for USER => list,
    tag = "snippets",
    operation_id = "list_snippets_of_user",
    summary = "List the code that agents keep for a user, in the order of its names.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of snippets.", body = houston_protocol::page::Page<SnippetEntry>)),
}

async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.text(List::Snippets)?);
    app.store(caller).user(user).await?;
    let snippets = app.store(caller).snippets(user, after, rows(limit)).await?;
    Ok(Json(Page::of(
        List::Snippets,
        limit,
        snippets,
        |row: &SnippetEntry| HexText(row.name.clone()),
        |row| row,
    )))
}

endpoint! {
    GET: get "/v1/users/{id}/snippets/{name}" for USER => get,
    tag = "snippets",
    operation_id = "get_snippet",
    summary = "Get a snippet with its code.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("name" = String, Path, description = "Name of the snippet.", example = "monthly_report")
    ),
    responses((status = 200, description = "The snippet.", body = houston_domain::snippet::Snippet)),
}

async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    SnippetName(name): SnippetName,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(app.store(caller).snippet(user, &name).await?))
}

endpoint! {
    DELETE: delete "/v1/users/{id}/snippets/{name}" for USER => delete,
    tag = "snippets",
    operation_id = "delete_snippet_of_user",
    summary = "Delete a snippet, and the tool that it is.",
    params(
        ("id" = houston_domain::id::UserId, Path, description = "Id of the user."),
        ("name" = String, Path, description = "Name of the snippet.", example = "monthly_report")
    ),
    responses((status = 204, description = "The snippet is deleted.")),
}

/// Runs that begin later have its tool no more.
async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    SnippetName(name): SnippetName,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_snippet(user, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
