//! `GET /v1/users/{id}/tables`: the custom tables of a user by their names.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_store::custom_table::CustomTable;

use super::response;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{HexText, List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/users/{id}/tables" => list,
    tag = "tables",
    operation_id = "list_tables_of_user",
    summary = "List the custom tables of a user by their names.",
    params(
        ("id" = houston_protocol::schema::UserId, Path, description = "Id of the user."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of tables.", body = houston_protocol::page::Page<houston_protocol::table::TableResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(user): Id<UserId>,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.text(List::Tables)?);
    app.store(caller).user(user).await?;
    let tables = app.store(caller).tables(user, after.as_deref(), rows(limit)).await?;
    let position = |table: &CustomTable| HexText(table.name.clone());
    Ok(Json(Page::of(List::Tables, limit, tables, position, response)))
}
