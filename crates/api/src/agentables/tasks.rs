//! `GET /v1/{kinds}/{id}/tasks`: the tasks of an agentable, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::agentable::Agentable;

use crate::agentable_path::AgentablePath;
use crate::agentables::responses;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, NextPage, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/{kinds}/{id}/tasks" => list,
    tag = "agentables",
    operation_id = "list_tasks",
    summary = "List the tasks of an agentable, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of tasks.", body = houston_protocol::page::Page<houston_protocol::agentable::AgentableResponse>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Tasks)?.map(Into::into));
    app.confirm(caller, &path).await?;
    let mut tasks = app.store(caller).tasks(path.id, before, rows(limit)).await?;
    let next = NextPage::of(List::Tasks, limit, &mut tasks, |row: &Agentable| row.id.0.as_u128());
    Ok(Json(next.page(responses(&app, caller, tasks).await?)))
}
