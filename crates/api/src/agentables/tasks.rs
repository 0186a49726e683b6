//! `GET /v1/{kinds}/{id}/tasks`: what agents of it were asked to do on their own, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::schema;
use houston_store::agentable::Agentable;

use crate::agentables::responses;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Next, PageQuery, rows};
use crate::agentable_path::AgentablePath;
use crate::query::Query;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/{kinds}/{id}/tasks",
    tag = "agentables",
    operation_id = "list_tasks",
    summary = "Its tasks, newest first",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("id" = schema::AgentableId, Path),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Items of the page; 20, if not given."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")
    ),
    responses(
        (status = 200, description = "A page of tasks", body = houston_protocol::page::Page<AgentableResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Tasks)?.map(Into::into));
    app.confirm(caller, &place).await?;
    let mut tasks = app.store().tasks(caller.tenant, place.id, before, rows(limit)).await?;
    let next = Next::of(List::Tasks, limit, &mut tasks, |row: &Agentable| row.id.0.as_u128());
    Ok(Json(next.page(responses(&app, caller, tasks).await?)))
}
