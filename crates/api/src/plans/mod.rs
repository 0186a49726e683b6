//! `/v1/plans/{id}` and `/v1/{kinds}/{id}/plans`: plans and their steps. What they do is in [`houston_domain::plan`].

pub(crate) mod cancel;
pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod get;
mod lines;
pub(crate) mod list;
pub(crate) mod pause;
pub(crate) mod step;
pub(crate) mod steps;
pub(crate) mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::id::{AgentableId, parse_prefixed};
use houston_domain::plan::{Document, Heading, Problem, States, Status, checklist};
use houston_protocol::plan::PlanResponse;
use houston_protocol::problem::FieldError;
use houston_protocol::time::Time;
use houston_store::plan::{PlanRefusal, PlanStep, StoredPlan, states};
use serde_json::{Value, json};

use crate::admission;
use crate::agentable_path::params;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::questions;
use crate::state::App;

const NOT_FOUND: ApiError = ApiError::NotFound { what: "plan" };

/// A plan as named by a path. Whether it exists and belongs to the caller's tenant is not checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanPath(pub(crate) AgentableId);

impl FromRequestParts<Arc<App>> for PlanPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, ApiError> {
        let params = params(parts).ok_or(NOT_FOUND)?;
        let id = params.iter().find(|(name, _)| *name == "id").map_or("", |(_, id)| id);
        let (kind, _) = id.rsplit_once('_').ok_or(NOT_FOUND)?;
        parse_prefixed(kind, id).map(|id| Self(id.into())).map_err(|_| NOT_FOUND)
    }
}

/// A step as named by a path, such as `each[2].read`.
#[derive(Debug, Clone)]
pub(crate) struct StepPath(pub(crate) String);

impl FromRequestParts<Arc<App>> for StepPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, ApiError> {
        const NO_STEP: ApiError = ApiError::NotFound { what: "step of the plan" };
        let params = params(parts).ok_or(NO_STEP)?;
        let path = params.iter().find(|(name, _)| *name == "path").map(|(_, path)| path.to_owned());
        path.map(Self).ok_or(NO_STEP)
    }
}

/// The plan now.
pub(crate) async fn listed(
    app: &App,
    caller: Caller,
    id: AgentableId,
) -> Result<Json<PlanResponse>, ApiError> {
    let store = app.store(caller);
    let plan = store.plan(id).await?;
    let steps = store.plan_steps(&[id]).await?.into_iter().map(|(_, step)| step).collect::<Vec<_>>();
    let questions = store.open_questions_of_agentable(id).await?;
    let document = plan.read()?;
    let mut response = response(plan, &document, &steps);
    response.questions = questions.into_iter().map(questions::response).collect();
    Ok(Json(response))
}

/// The response for a plan with these steps, without its questions.
fn response(plan: StoredPlan, document: &Document, steps: &[PlanStep]) -> PlanResponse {
    let checklist = seen(&plan, document, steps);
    PlanResponse {
        status: plan.status().to_owned(),
        id: plan.id.public_id(&plan.kind),
        user_id: plan.user,
        parent_id: plan.parent.1.public_id(&plan.parent.0),
        run_id: plan.run,
        attached: plan.attached,
        paused: plan.paused,
        version: plan.version,
        document: plan.document,
        input: plan.input,
        checklist,
        steps: lines::beginnings(document, steps),
        questions: Vec::new(),
        output: plan.output,
        replans: plan.replans,
        calls: plan.calls,
        deadline_at: Time(plan.deadline),
        created_at: Time(plan.created_at),
        ended_at: plan.ended_at.map(Time),
    }
}

/// What people see of a plan.
fn seen(plan: &StoredPlan, document: &Document, steps: &[PlanStep]) -> Value {
    let asking = steps.iter().filter(|step| step.state.status == Status::Asking);
    let questions: BTreeMap<String, String> =
        asking.filter_map(|step| Some((step.path.clone(), step.question?.to_string()))).collect();
    let plan_id = plan.id.public_id(&plan.kind);
    let heading = Heading {
        plan_id: Some(&plan_id),
        version: u32::try_from(plan.version).unwrap_or_default(),
        status: plan.status(),
        questions: &questions,
    };
    let states: States = states(steps);
    json!(checklist(document, &states, heading))
}

/// Every problem of a document or a patch, as the fields of the body that are wrong. `at`: where the body has it.
pub(crate) fn invalid(at: &str, problems: Vec<Problem>) -> ApiError {
    let errors = problems
        .into_iter()
        .map(|problem| FieldError::at(format!("{at}{}", problem.pointer), problem.message));
    ApiError::InvalidRequest { errors: errors.collect() }
}

/// Tries the expressions of a document, or of a value with templates, before it is stored. `at`: where the body has it.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names an expression which takes more than it may.
pub(crate) async fn try_expressions(caller: Caller, at: &str, document: &Value) -> Result<(), ApiError> {
    let tried = houston_meter::try_expressions(caller.tenant().0, document);
    let tried = admission::computed(tried).await;
    tried.map_err(|problem| invalid(at, vec![problem]))
}

/// Why a plan was not changed.
fn refused<E>(refusal: PlanRefusal<E>, other: impl FnOnce(E) -> ApiError) -> ApiError {
    match refusal {
        PlanRefusal::Ended(status) => ApiError::InvalidState { status },
        PlanRefusal::Stale(version) => ApiError::StaleVersion { version: version.into() },
        PlanRefusal::Refused(error) => other(error),
    }
}

/// Lets workers go on with a plan that was changed, and streams read what changed.
fn tell(app: &App, plan: &StoredPlan) {
    app.publish_nudge(plan.parent.1);
    app.publish_nudge(plan.id);
    app.send_hint(plan.id, app.urgency(&plan.kind));
}
