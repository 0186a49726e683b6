//! `GET /v1/users/{id}/snippets`: snippets without their code, in the order of their names.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_domain::snippet;
use houston_protocol::snippet::SnippetResponse;
use houston_protocol::time::Time;
use houston_store::snippet::SnippetEntry;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{HexText, List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/users/{id}/snippets" => list,
    tag = "snippets",
    operation_id = "list_snippets_of_user",
    summary = "List the code that agents keep for a user, in the order of its names.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of snippets.", body = houston_protocol::page::Page<SnippetResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.text(List::Snippets)?);
    app.store(caller).user(user).await?;
    let snippets = app.store(caller).snippets(user, after, rows(limit)).await?;
    Ok(Json(Page::of(List::Snippets, limit, snippets, |row| HexText(row.name.clone()), response)))
}

fn response(entry: SnippetEntry) -> SnippetResponse {
    SnippetResponse {
        tool: entry.is_tool.then(|| snippet::tool_name(&entry.name)),
        name: entry.name,
        language: entry.language,
        description: entry.description,
        chars: entry.chars,
        untrusted: entry.untrusted,
        created_at: Time(entry.created_at),
        updated_at: Time(entry.updated_at),
    }
}
