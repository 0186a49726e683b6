//! `GET /v1/{kinds}/{id}/tasks`: what agents of it were asked to do on their own, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_store::agentable::Agentable;

use crate::agentables::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Place;
use crate::query::Query;
use crate::state::App;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Tasks)?.map(Into::into));
    app.confirm(caller, &place).await?;
    let tasks = app.store().tasks(caller.tenant, place.id, before, rows(limit)).await?;
    let position = |row: &Agentable| row.id.0.as_u128();
    let shown = |row: Agentable| {
        let kind = app.state.agent_types.get(&row.kind);
        Shown::new(row, kind)
    };
    Ok(Json(Page::of(List::Tasks, limit, tasks, position, shown)))
}
