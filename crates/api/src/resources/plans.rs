//! `/v1/plans/{id}` and `/v1/{kinds}/{id}/plans`: plans. What they do is in [`houston_domain::plan`].

pub(crate) mod create;
pub(crate) mod steps;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use houston_domain::id::{AgentableId, parse_prefixed};
use houston_domain::plan::{Document, Heading, Offer, Patched, Problem, States, Status, checklist, patch};
use houston_protocol::plan::{ChangePlan, PlanListItem, PlanResponse, PlanVersionResponse};
use houston_protocol::problem::FieldError;
use houston_protocol::time::Time;
use houston_store::plan::{PlanChange, PlanRefusal, PlanStep, PlanVersion, StoredPlan, states};
use serde_json::{Value, json};

use crate::admission;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::request::agentable_path::{AgentablePath, params};
use crate::request::body::Creation;
use crate::request::checks::check_line;
use crate::request::checks::check_storable_value;
use crate::request::endpoint::{Endpoint, endpoint};
use crate::request::page::{List, NextPage, Page, PageQuery, rows};
use crate::request::query::Query;
use crate::resources::questions;
use crate::state::App;

pub(crate) const ENDPOINTS: &[Endpoint] = &[LIST, GET, CHANGE, LIST_VERSIONS, PAUSE, RESUME, CANCEL];

const NOT_FOUND: ApiError = ApiError::NotFound { what: "plan" };

/// A plan as named by a path. Whether it exists and belongs to the caller's tenant is not checked.
#[derive(Debug, Clone, Copy)]
struct PlanPath(pub(crate) AgentableId);

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
struct StepPath(pub(crate) String);

impl FromRequestParts<Arc<App>> for StepPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, ApiError> {
        const NO_STEP: ApiError = ApiError::NotFound { what: "step of the plan" };
        let params = params(parts).ok_or(NO_STEP)?;
        let path = params.iter().find(|(name, _)| *name == "path").map(|(_, path)| path.to_owned());
        path.map(Self).ok_or(NO_STEP)
    }
}

endpoint! {
    LIST: get "/v1/{kinds}/{id}/plans" for AGENTABLE => list,
    tag = "plans",
    operation_id = "list_plans",
    summary = "List the plans of an agentable, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the agentable."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of plans.", body = houston_protocol::page::Page<PlanListItem>)
    ),
}

async fn list(
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
    let items = move || -> Result<Vec<_>, houston_store::Error> {
        plans.into_iter().map(|plan| item(plan, &mut steps)).collect()
    };
    Ok(Json(next.page(app.offload.compute(items).await??)))
}

fn item(
    plan: StoredPlan,
    steps: &mut HashMap<AgentableId, Vec<PlanStep>>,
) -> Result<PlanListItem, houston_store::Error> {
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
}

endpoint! {
    GET: get "/v1/plans/{id}" for ROW => get,
    tag = "plans",
    operation_id = "get_plan",
    summary = "Get a plan: document, status, steps, and the questions that it asks.",
    params(("id" = houston_domain::id::AgentableId, Path, description = "Id of the plan.")),
    responses((status = 200, description = "The plan.", body = PlanResponse)),
}

async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<Json<PlanResponse>, ApiError> {
    listed(&app, caller, id).await
}

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

endpoint! {
    CHANGE: patch "/v1/plans/{id}" for ROW => change,
    tag = "plans",
    operation_id = "change_plan",
    summary = "Change the steps of a plan that have not begun.",
    params(("id" = houston_domain::id::AgentableId, Path, description = "Id of the plan.")),
    request_body = ChangePlan,
    responses(
        (status = 200, description = "The plan with its new document.", body = PlanResponse),
        (status = 409, description = "`stale_version`: the plan has another version by now. `invalid_state`: it has ended.")
    ),
}

/// Other steps for a plan that has begun.
async fn change(
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

endpoint! {
    PAUSE: post "/v1/plans/{id}/pause" for ROW => pause,
    tag = "plans",
    operation_id = "pause_plan",
    summary = "Pause a plan: nothing new starts, and what runs ends. Its deadline stays.",
    params(("id" = houston_domain::id::AgentableId, Path, description = "Id of the plan.")),
    responses(
        (status = 200, description = "The plan.", body = PlanResponse),
        (status = 409, description = "`invalid_state`: it has ended.")
    ),
}

/// Pausing and resuming are idempotent.
async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<Json<PlanResponse>, ApiError> {
    set(&app, caller, PlanPath(id), true).await
}

endpoint! {
    RESUME: post "/v1/plans/{id}/resume" for ROW => resume,
    tag = "plans",
    operation_id = "resume_plan",
    summary = "Let a paused plan go on.",
    params(("id" = houston_domain::id::AgentableId, Path, description = "Id of the plan.")),
    responses(
        (status = 200, description = "The plan.", body = PlanResponse),
        (status = 409, description = "`invalid_state`: it has ended.")
    ),
}

async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<Json<PlanResponse>, ApiError> {
    set(&app, caller, PlanPath(id), false).await
}

async fn set(
    app: &App,
    caller: Caller,
    PlanPath(id): PlanPath,
    paused: bool,
) -> Result<Json<PlanResponse>, ApiError> {
    let plan = app.store(caller).plan(id).await?;
    let done = app.store(caller).pause_plan(id, paused).await?;
    done.map_err(|refusal| refused(refusal, |()| NOT_FOUND))?;
    tell(app, &plan);
    listed(app, caller, id).await
}

endpoint! {
    CANCEL: post "/v1/plans/{id}/cancel" for ROW => cancel,
    tag = "plans",
    operation_id = "cancel_plan",
    summary = "Cancel a plan and its executors. What they did stays done.",
    params(("id" = houston_domain::id::AgentableId, Path, description = "Id of the plan.")),
    responses(
        (status = 202, description = "The runs whose cancellation was requested.", body = houston_protocol::run::CancelledRunsResponse)
    ),
}

/// Idempotent.
async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    PlanPath(id): PlanPath,
) -> Result<impl IntoResponse, ApiError> {
    let plan = app.store(caller).plan(id).await?;
    let cancelled = app.store(caller).cancel_agentable(&plan.kind, id, false).await?;
    Ok((StatusCode::ACCEPTED, Json(app.notify_cancelled(cancelled))))
}

endpoint! {
    LIST_VERSIONS: get "/v1/plans/{id}/versions" for ROW => list_versions,
    tag = "plans",
    operation_id = "list_plan_versions",
    summary = "List the documents that a plan has had, newest first, and why each was made.",
    params(
        ("id" = houston_domain::id::AgentableId, Path, description = "Id of the plan."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of versions.", body = houston_protocol::page::Page<PlanVersionResponse>)
    ),
}

async fn list_versions(
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

/// The plan now.
async fn listed(app: &App, caller: Caller, id: AgentableId) -> Result<Json<PlanResponse>, ApiError> {
    let store = app.store(caller);
    let plan = store.plan(id).await?;
    let steps = store.plan_steps(&[id]).await?.into_iter().map(|(_, step)| step).collect::<Vec<_>>();
    let questions = store.open_questions_of_agentable(id).await?;
    let read = move || plan.read().map(|document| response(plan, &document, &steps));
    let mut response = app.offload.compute(read).await??;
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
        steps: steps::beginnings(document, steps),
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
