//! `/v1/plans/{id}` and `/v1/{kinds}/{id}/plans`: plans. What they do is in [`houston_domain::plan`].

pub(crate) mod create;
pub(crate) mod steps;

use std::collections::{BTreeMap, HashMap};

use houston_domain::id::{AgentableId, RunId, parse_prefixed};
use houston_domain::plan::{Document, Heading, Offer, Patched, Problem, States, Status, checklist, patch};
use houston_protocol::plan::{ChangePlan, PlanListItem, PlanResponse};
use houston_protocol::problem::FieldError;
use houston_store::plan::{PlanChange, PlanRefusal, PlanStep, StoredPlan, states};
use serde_json::{Value, json};

use crate::admission;
use crate::caller::Caller;
use crate::request::agentable_path::path_value;
use crate::request::prelude::*;
use crate::resources::questions;

endpoints! {
    get "/v1/{kinds}/{id}/plans" for AGENTABLE => list,
    "list_plans" in "plans": "List the plans of an agentable, newest first.",
    params(Paged),
    200 "A page of plans." [Page<PlanListItem>];

    get "/v1/plans/{id}" for ROW => async |ctx: Ctx, PlanPath(id): PlanPath| listed(&ctx, id).await,
    "get_plan" in "plans": "Get a plan: document, status, steps, and the questions that it asks.",
    200 "The plan." [PlanResponse];

    patch "/v1/plans/{id}" for ROW => change,
    "change_plan" in "plans": "Change the steps of a plan that have not begun.",
    body [ChangePlan],
    200 "The plan with its new document." [PlanResponse],
    409 "`stale_version`: the plan has another version by now. `invalid_state`: it has ended.";

    get "/v1/plans/{id}/versions" for ROW => list_versions,
    "list_plan_versions" in "plans": "List the documents that a plan has had, newest first, and why each was made.",
    params(Paged),
    200 "A page of versions." [Page<houston_domain::plan::PlanVersion>];

    // Pausing and resuming are idempotent.
    post "/v1/plans/{id}/pause" for ROW =>
        async |ctx: Ctx, plan: PlanPath| set(&ctx, plan, true).await,
    "pause_plan" in "plans": "Pause a plan: nothing new starts, and what runs ends. Its deadline stays.",
    200 "The plan." [PlanResponse],
    409 "`invalid_state`: it has ended.";

    post "/v1/plans/{id}/resume" for ROW =>
        async |ctx: Ctx, plan: PlanPath| set(&ctx, plan, false).await,
    "resume_plan" in "plans": "Let a paused plan go on.",
    200 "The plan." [PlanResponse],
    409 "`invalid_state`: it has ended.";

    post "/v1/plans/{id}/cancel" for ROW => cancel,
    "cancel_plan" in "plans": "Cancel a plan and its executors. What they did stays done.",
    202 "The runs whose cancellation was requested." [houston_protocol::run::CancelledRunsResponse];
}

const NOT_FOUND: ApiError = ApiError::NotFound("plan");

path_value! {
    /// A plan as named by a path. Whether it exists and belongs to the caller's tenant is not checked.
    PlanPath(AgentableId): "id" or "plan", |id| {
        let (kind, _) = id.rsplit_once('_')?;
        parse_prefixed(kind, &id).ok().map(Into::into)
    }
}

path_value! {
    /// A step as named by a path, such as `each[2].read`.
    StepPath(String): "path" or "step of the plan", Some
}

async fn list(ctx: Ctx, path: AgentablePath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.id(List::Plans)?.map(Into::into));
    ctx.confirm(&path).await?;
    let mut plans = ctx.store().plans_of(path.id, before, rows(limit)).await?;
    let next = NextPage::of(List::Plans, limit, &mut plans, |plan: &StoredPlan| plan.id.0.as_u128());
    let ids: Vec<AgentableId> = plans.iter().map(|plan| plan.id).collect();
    let mut steps: HashMap<AgentableId, Vec<PlanStep>> = HashMap::new();
    for (plan, step) in ctx.store().plan_steps(&ids).await? {
        steps.entry(plan).or_default().push(step);
    }
    let items = move || -> Result<Vec<_>, houston_store::Error> {
        plans.into_iter().map(|plan| item(plan, &mut steps)).collect()
    };
    Ok(Json(next.page(ctx.offload.compute(items).await??)))
}

fn item(
    plan: StoredPlan,
    steps: &mut HashMap<AgentableId, Vec<PlanStep>>,
) -> Result<PlanListItem, houston_store::Error> {
    let steps = steps.remove(&plan.id).unwrap_or_default();
    let checklist = seen(&plan, &plan.read()?, &steps);
    Ok(PlanListItem {
        id: plan.id.public_id(&plan.kind),
        run_id: plan.run.map(RunId),
        attached: plan.attached,
        status: plan.status().to_owned(),
        version: plan.version,
        checklist,
        created_at: Time(plan.created_at),
        ended_at: plan.ended_at.map(Time),
    })
}

/// Maximum length of a reason, in characters.
const MAX_REASON_CHARS: usize = 200;

/// Other steps for a plan that has begun.
async fn change(
    ctx: Ctx,
    PlanPath(id): PlanPath,
    Sent(body): Sent<ChangePlan>,
) -> Result<Json<PlanResponse>> {
    if let Some(reason) = &body.reason {
        check_line("/reason", reason, MAX_REASON_CHARS)?;
    }
    check_storable_value("/add", &json!(body.add))?;
    check_storable_value("/output", &json!(body.output))?;
    try_expressions(ctx.caller, "", &json!({"add": body.add, "output": body.output})).await?;
    let plan = ctx.store().plan(id).await?;
    let rule = |document: &Value, states: &_| {
        by_patch((&plan, ctx.state.plans.steps_of_request), &body, document, states)
    };
    let done = ctx.store().change_plan(id, body.version, rule).await?;
    done.map_err(|refusal| refused(refusal, |problems| invalid("", problems)))?;
    tell(&ctx, &plan);
    listed(&ctx, id).await
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

async fn set(ctx: &Ctx, PlanPath(id): PlanPath, paused: bool) -> Result<Json<PlanResponse>> {
    let plan = ctx.store().plan(id).await?;
    let done = ctx.store().pause_plan(id, paused).await?;
    done.map_err(|refusal| refused(refusal, |()| NOT_FOUND))?;
    tell(ctx, &plan);
    listed(ctx, id).await
}

/// Idempotent.
async fn cancel(ctx: Ctx, PlanPath(id): PlanPath) -> Result<impl IntoResponse> {
    let plan = ctx.store().plan(id).await?;
    Ok((StatusCode::ACCEPTED, Json(ctx.cancel_agentable(&plan.kind, id, false).await?)))
}

async fn list_versions(ctx: Ctx, PlanPath(id): PlanPath, query: PageQuery) -> Result<impl IntoResponse> {
    let (limit, before) = (query.limit()?, query.position(List::PlanVersions)?);
    ctx.store().plan(id).await?;
    let versions = ctx.store().plan_versions(id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::PlanVersions, limit, versions, |row| i64::from(row.version), |row| row)))
}

/// The plan now.
async fn listed(ctx: &Ctx, id: AgentableId) -> Result<Json<PlanResponse>> {
    let store = ctx.store();
    let plan = store.plan(id).await?;
    let steps = store.plan_steps(&[id]).await?.into_iter().map(|(_, step)| step).collect::<Vec<_>>();
    let questions = store.open_questions_of_agentable(id).await?;
    let read = move || plan.read().map(|document| response(plan, &document, &steps));
    let mut response = ctx.offload.compute(read).await??;
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
        parent_id: plan.parent.public_id(&plan.parent_kind),
        run_id: plan.run.map(RunId),
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
    ApiError::InvalidRequest(errors.collect())
}

/// Tries the expressions of a document, or of a value with templates, before it is stored. `at`: where the body has it.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names an expression which takes more than it may.
pub(crate) async fn try_expressions(caller: Caller, at: &str, document: &Value) -> Result<()> {
    let tried = houston_meter::try_expressions(caller.tenant().0, document);
    let tried = admission::computed(tried).await;
    tried.map_err(|problem| invalid(at, vec![problem]))
}

/// Why a plan was not changed.
fn refused<E>(refusal: PlanRefusal<E>, other: impl FnOnce(E) -> ApiError) -> ApiError {
    match refusal {
        PlanRefusal::Ended(status) => ApiError::InvalidState(status),
        PlanRefusal::Stale(version) => ApiError::StaleVersion(version.into()),
        PlanRefusal::Refused(error) => other(error),
    }
}

/// Lets workers go on with a plan that was changed, and streams read what changed.
fn tell(app: &App, plan: &StoredPlan) {
    app.publish_nudge(plan.parent);
    app.publish_nudge(plan.id);
    app.send_hint(plan.id, app.urgency(&plan.kind));
}
