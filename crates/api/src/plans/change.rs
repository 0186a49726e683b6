//! `PATCH /v1/plans/{id}`: other steps for a plan that has begun.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use houston_domain::plan::{Offer, Patched, Problem, patch};
use houston_protocol::plan::{ChangePlan, PlanResponse};
use houston_store::plan::{PlanChange, StoredPlan};
use serde_json::{Value, json};

use super::{PlanPath, invalid, listed, refused, tell, try_expressions};
use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::messages::post::check_storable_value;
use crate::state::App;

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

endpoint! {
    CHANGE: patch "/v1/plans/{id}" => change,
    tag = "plans",
    operation_id = "change_plan",
    summary = "Change the steps of a plan that have not begun.",
    params(("id" = houston_protocol::schema::AgentableId, Path, description = "Id of the plan.")),
    request_body = ChangePlan,
    responses(
        (status = 200, description = "The plan with its new document.", body = PlanResponse),
        (status = 409, description = "`stale_version`: the plan has another version by now. `invalid_state`: it has ended.")
    ),
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
    // The version makes it idempotent, so the Idempotency-Key is ignored.
    Creation { value: body, key: _ }: Creation<ChangePlan>,
) -> Result<Json<PlanResponse>, ApiError> {
    if let Some(reason) = &body.reason {
        check_line("/reason", reason, MAX_REASON_CHARS)?;
    }
    check_storable_value("/add", &json!(body.add))?;
    check_storable_value("/output", &json!(body.output))?;
    try_expressions(caller, "", &json!({"add": body.add, "output": body.output})).await?;
    let plan = app.store(caller).plan(id).await?;
    let rule = |document: &Value, states: &_| {
        by_patch((&plan, app.state.plans.steps_of_request), &body, document, states)
    };
    let done = app.store(caller).change_plan(id, body.version, rule).await?;
    done.map_err(|refusal| refused(refusal, |problems| invalid("", problems)))?;
    tell(&app, &plan);
    listed(&app, caller, id).await
}

fn by_patch(
    (plan, steps): (&StoredPlan, usize),
    body: &ChangePlan,
    document: &Value,
    states: &houston_domain::plan::States,
) -> Result<PlanChange, Vec<Problem>> {
    let tools: Vec<&str> = plan.tools.iter().map(String::as_str).collect();
    let offer = Offer { tools: &tools, steps };
    let mut given = json!({"remove": body.remove, "add": body.add});
    if let Some(output) = &body.output {
        given["output"] = output.clone();
    }
    match patch(document, states, &given, offer)? {
        Patched::Changed { json, states, .. } => {
            let reason = body.reason.clone().unwrap_or_else(|| "changed by a request".to_owned());
            Ok(PlanChange { document: json, states, reason })
        }
        // A request cancels instead.
        Patched::GivenUp(_) => Err(Vec::new()),
    }
}
