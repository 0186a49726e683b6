//! `GET /v1/{kinds}/{id}/plans`: the plans of an agentable, newest first.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::AgentableId;
use houston_protocol::plan::PlanListItem;
use houston_protocol::time::Time;
use houston_store::plan::{PlanStep, StoredPlan};

use super::seen;
use crate::agentable_path::AgentablePath;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, NextPage, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

endpoint! {
    LIST: get "/v1/{kinds}/{id}/plans" => list,
    tag = "plans",
    operation_id = "list_plans",
    summary = "List the plans of an agentable, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of plans.", body = houston_protocol::page::Page<PlanListItem>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    path: AgentablePath,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(List::Plans)?.map(Into::into));
    app.confirm(caller, &path).await?;
    let mut plans = app.store(caller).plans_of(path.id, before, rows(limit)).await?;
    let next = NextPage::of(List::Plans, limit, &mut plans, |plan: &StoredPlan| plan.id.0.as_u128());
    let ids: Vec<AgentableId> = plans.iter().map(|plan| plan.id).collect();
    let mut steps: HashMap<AgentableId, Vec<PlanStep>> = HashMap::new();
    for (plan, step) in app.store(caller).plan_steps(&ids).await? {
        steps.entry(plan).or_default().push(step);
    }
    let items = plans.into_iter().map(|plan| {
        let steps = steps.remove(&plan.id).unwrap_or_default();
        let checklist = seen(&plan, &plan.read()?, &steps);
        Ok(PlanListItem {
            id: plan.id.public_id(&plan.kind),
            run_id: plan.run,
            attached: plan.attached,
            status: plan.status().to_owned(),
            version: plan.version,
            checklist,
            created_at: Time(plan.created_at),
            ended_at: plan.ended_at.map(Time),
        })
    });
    Ok(Json(next.page(items.collect::<Result<Vec<_>, ApiError>>()?)))
}
