//! `POST /v1/{kinds}/{id}/plans`: makes a plan, without any model. No run waits for it; the agentable is reported its end.

use chrono::TimeDelta;
use houston_domain::agentable::{AgentType, MAX_TITLE_CHARS};
use houston_domain::id::{AgentableId, UserId};
use houston_domain::plan::{Document, MAX_INPUT_BYTES, MAX_STEPS, Offer, SMALL_BYTES};
use houston_domain::run::RunStatus;
use houston_protocol::plan::CreatePlan;
use houston_protocol::problem::FieldError;
use houston_store::idempotency::Created;
use houston_store::plan::{NewPlan, StoredPlan};
use serde_json::{Map, Value};

use super::{invalid, response, try_expressions};
use crate::request::prelude::*;
use crate::request::request_trace::Posting;

endpoints! {
    post "/v1/{kinds}/{id}/plans" for AGENTABLE => create,
    "create_plan" in "plans": "Make a plan for an agentable, without any model. When it ends, the agentable is reported.",
    params(Keyed),
    body [CreatePlan],
    201 "The plan." [houston_protocol::plan::PlanResponse],
    409 "`full`: the agentable has the maximum number of plans that have not ended. `archived`: it is archived. `not_creatable`: agentables of this kind have no plans.";
}

pub(crate) async fn create(
    ctx: Ctx,
    path: AgentablePath,
    Creation { value: CreatePlan { document, template, input }, key }: Creation<CreatePlan>,
) -> Result<Response> {
    let not_creatable = || ApiError::NotCreatable { kind: "plan".to_owned(), made_with_user: false };
    let input = Value::Object(input);
    check_storable_value("/input", &input)?;
    check_size("/input", input.to_string().len(), MAX_INPUT_BYTES)?;
    let (document, at) = document_of(&ctx, document, template.as_deref(), &input)?;
    let parent = ctx.store().agentable(&path.kind, path.id).await?;
    let parent_kind = ctx.state.agent_types.get(&path.kind).ok_or_else(not_creatable)?;
    let offered = offer(&ctx, parent_kind, parent.tools.as_deref()).await?;
    let (kind, tools) = offered.ok_or_else(not_creatable)?;
    let limits = ctx.state.plans;
    let json = document.to_string();
    let parse = move |json: &str, tools: &[String]| {
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        Document::parse(json, Offer { tools: &tools, steps: limits.steps_of_request })
    };
    let checked = if json.len() <= SMALL_BYTES {
        parse(&json, &tools)
    } else {
        let tools = tools.clone();
        ctx.offload.compute(move || parse(&json, &tools)).await?
    };
    let checked = checked.map_err(|problems| invalid(at, problems))?;
    try_expressions(ctx.caller, at, &document).await?;
    let plan =
        Made { path: &path, user: parent.user, kind, tools: &tools, document: &document, input: &input };
    let done = plan.make(&ctx, &checked, None, key.as_ref()).await;
    let done = done.map_err(|error| match error {
        houston_store::Error::Archived => ApiError::Archived(path.public_id()),
        error => error.into(),
    })?;
    created(unless_key_reused(done)?, "/v1/plans")
}

/// A plan to be made for the agentable of `path`.
struct Made<'a> {
    path: &'a AgentablePath,
    user: UserId,
    kind: &'a AgentType,
    tools: &'a [String],
    document: &'a Value,
    input: &'a Value,
}

impl Made<'_> {
    /// Makes it, and lets workers begin. `again`: the plan that it repeats.
    async fn make(
        &self,
        ctx: &Ctx,
        checked: &Document,
        again: Option<AgentableId>,
        key: Option<&Key>,
    ) -> Result<Created<Value>, houston_store::Error> {
        let Self { path, user, kind, .. } = *self;
        let title = title(&checked.goal);
        let posting = Posting::begin(kind.urgency);
        let new = NewPlan {
            id: ctx.state.ids.beside(user),
            run: ctx.state.ids.beside(user),
            message: ctx.state.ids.beside(user),
            kind: &kind.kind,
            status: kind.initial_status(),
            title: &title,
            tools: self.tools,
            document: self.document,
            input: self.input,
            attached: false,
            deadline: ctx.now() + TimeDelta::seconds(ctx.state.plans.detached_s.into()),
            traceparent: posting.traceparent.as_deref(),
        };
        let body = stored_body(&response(stored(&new, path, user, ctx), checked, &[]));
        let key = key.map(Key::as_stored);
        let done = ctx.store().make_plan((&path.kind, path.id), (&new, again), key, &body).await?;
        if let Created::New(_) = done {
            ctx.publish_nudge(path.id);
            ctx.send_hint(new.id, kind.urgency);
            let (message, run) = (new.message, new.run);
            posting.end(message, run);
        }
        Ok(done)
    }
}

/// Makes a plan that has failed again, once for each run of it: what it has done stays done, and no run waits for it. Its deadline
/// begins anew. `None`: the agentable that it worked for cannot have another plan now.
pub(crate) async fn make_again(ctx: &Ctx, failed: AgentableId, key: &Key) -> Result<Option<()>> {
    let old = ctx.store().plan(failed).await?;
    let Some(kind) = ctx.state.agent_types.get(&old.kind) else { return Ok(None) };
    let Some(path) = AgentablePath::of_kind(&ctx.state.agent_types, &old.parent_kind, old.parent) else {
        return Ok(None);
    };
    let tools: Vec<&str> = old.tools.iter().map(String::as_str).collect();
    let offer = Offer { tools: &tools, steps: MAX_STEPS };
    let checked = Document::parse(&old.document.to_string(), offer);
    let Ok(checked) = checked else { return Ok(None) };
    let (tools, document, input) = (&old.tools, &old.document, &old.input);
    let plan = Made { path: &path, user: old.user, kind, tools, document, input };
    match plan.make(ctx, &checked, Some(failed), Some(key)).await {
        Err(houston_store::Error::Archived | houston_store::Error::Full { .. }) => Ok(None),
        made => unless_key_reused(made?).map(|_| Some(())),
    }
}

/// The document of a request, and where the request has it.
fn document_of(
    app: &App,
    document: Option<Map<String, Value>>,
    template: Option<&str>,
    input: &Value,
) -> Result<(Value, &'static str)> {
    let refused = |pointer: &str, why: String| ApiError::InvalidRequest(vec![FieldError::at(pointer, why)]);
    match (document, template) {
        (Some(document), None) => {
            let document = Value::Object(document);
            check_storable_value("/document", &document)?;
            Ok((document, "/document"))
        }
        (None, Some(name)) => {
            let template = app.state.plan_templates.get(name).map_err(|why| refused("/template", why))?;
            let checked = template.check_input(input);
            checked.map_err(|wrong| refused(&format!("/input{}", wrong.pointer), wrong.message))?;
            Ok((template.document.clone(), "/template"))
        }
        _ => Err(refused("/document", "give either `document` or `template`".to_owned())),
    }
}

/// The kind of the plans that agentables of this kind may have, and the tools that their steps may call; `None`: they have none.
pub(crate) async fn offer<'a>(
    ctx: &'a Ctx,
    parent: &AgentType,
    of_agentable: Option<&[String]>,
) -> Result<Option<(&'a AgentType, Vec<String>)>> {
    let kinds = &ctx.state.agent_types;
    let kind = parent.creates.iter().filter_map(|kind| kinds.get(kind)).find(|kind| kind.is_plan());
    let Some(kind) = kind else { return Ok(None) };
    Ok(Some((kind, tools(ctx, (kind, parent), of_agentable).await?)))
}

/// The tools that steps may call: those of plans that the agentable may call itself.
async fn tools(
    ctx: &Ctx,
    (kind, parent): (&AgentType, &AgentType),
    of_agentable: Option<&[String]>,
) -> Result<Vec<String>> {
    let own = ctx.store().own_tools().await?;
    let is_offered = |tool: &String| {
        let is_own = parent.tools.contains(tool) || own.contains(tool);
        is_own && of_agentable.is_none_or(|tools| tools.contains(tool))
    };
    let all = kind.tools.iter().chain(own.iter().filter(|tool| !kind.tools.contains(tool)));
    Ok(all.filter(|tool| is_offered(tool)).cloned().collect())
}

/// The title of the plan: the first line of what it is for.
pub(crate) fn title(goal: &str) -> String {
    goal.trim().lines().next().unwrap_or_default().chars().take(MAX_TITLE_CHARS).collect()
}

/// The plan as it is stored.
fn stored(new: &NewPlan<'_>, path: &AgentablePath, user: UserId, app: &App) -> StoredPlan {
    StoredPlan {
        id: new.id,
        kind: new.kind.to_owned(),
        user,
        parent: path.id,
        parent_kind: path.kind.clone(),
        tools: new.tools.to_vec(),
        attached: new.attached,
        version: 1,
        document: new.document.clone(),
        input: new.input.clone(),
        replans: 0,
        calls: 0,
        paused: false,
        deadline: new.deadline,
        output: None,
        created_at: app.now(),
        ended_at: None,
        run: Some(new.run.0),
        run_status: Some(RunStatus::Queued.as_str().to_owned()),
        listed_in: None,
    }
}
