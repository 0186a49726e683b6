//! `GET /v1/plans/{id}/steps`: the steps of a plan in the order of its document, with their results.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::plan::MAX_RESULT;

use super::PlanPath;
use super::lines::{Line, lines};
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{HexText, List, Page, PageQuery};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/plans/{id}/steps" => list,
    tag = "plans",
    operation_id = "list_plan_steps",
    summary = "List the steps of a plan in the order of its document, those of loops for each turn so far.",
    params(
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of steps, with up to 16 KiB of each result.", body = houston_protocol::page::Page<houston_protocol::plan::PlanStepResponse>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, after) = (query.limit()?, query.text(List::PlanSteps)?);
    let plan = app.store(caller).plan(id).await?;
    let rows =
        app.store(caller).plan_steps(&[id]).await?.into_iter().map(|(_, step)| step).collect::<Vec<_>>();
    let document = plan.read()?;
    let all = lines(&document, &rows);
    // The document may have been changed since: then the step before the page may be gone.
    let start = match &after {
        None => 0,
        Some(path) => all.iter().position(|line| line.path == *path).ok_or(ApiError::InvalidCursor)? + 1,
    };
    let page: Vec<Line<'_>> = all.into_iter().skip(start).take(limit + 1).collect();
    let position = |line: &Line<'_>| HexText(line.path.clone());
    Ok(Json(Page::of(List::PlanSteps, limit, page, position, |line| line.response(MAX_RESULT))))
}
