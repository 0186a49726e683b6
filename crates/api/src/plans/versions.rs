//! `GET /v1/plans/{id}/versions`: the documents of a plan, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::plan::PlanVersionResponse;
use houston_protocol::time::Time;
use houston_store::plan::PlanVersion;

use super::PlanPath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/plans/{id}/versions" => list,
    tag = "plans",
    operation_id = "list_plan_versions",
    summary = "List the documents that a plan has had, newest first, and why each was made.",
    params(
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of versions.", body = houston_protocol::page::Page<PlanVersionResponse>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.position(List::PlanVersions)?);
    app.store(caller).plan(id).await?;
    let versions = app.store(caller).plan_versions(id, before, rows(limit)).await?;
    let show = |version: PlanVersion| PlanVersionResponse {
        version: version.version,
        reason: version.reason,
        document: version.document,
        created_at: Time(version.created_at),
    };
    let position = |version: &PlanVersion| i64::from(version.version);
    Ok(Json(Page::of(List::PlanVersions, limit, versions, position, show)))
}
