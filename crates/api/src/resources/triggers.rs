//! Triggers of a user's agentables: at a time, at a word or at an event, they get a message, or a task of them starts.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use houston_domain::agentable::{AgentType, MAX_TITLE_CHARS};
use houston_domain::id::{AgentableId, TriggerId, UserId};
use houston_domain::mode::Mode;
use houston_domain::plan::{Document, MAX_INPUT_BYTES, Offer};
use houston_domain::trigger::effect::{TriggerPlan, TriggerTask, check_template, check_templates};
use houston_domain::trigger::{MAX_INSTRUCTIONS_BYTES, MAX_NAME_CHARS, When};
use houston_protocol::trigger::{
    CreateTrigger, TriggerFiringList, TriggerList, TriggerResponse, TriggerThen, UpdateTrigger,
};
use houston_store::trigger::{MAX_DUE, Trigger};
use serde_json::{Map, Value, json};

use crate::request::prelude::*;
use crate::resources::plans::create::{offer, title};
use crate::resources::plans::{invalid, try_expressions};

endpoints! {
    get "/v1/triggers" for NAMED => due,
    "list_due_triggers" in "triggers": "List the triggers of the tenant that are due at a time, the next one first.",
    description = "At most 100. Those that wait for words or events, and those that are paused, are not among them.",
    200 "What is due next." [TriggerList];

    get "/v1/users/{id}/triggers" for USER => list,
    "list_triggers" in "triggers": "List the triggers of a user, the oldest first.",
    200 "All triggers." [TriggerList];

    post "/v1/users/{id}/triggers" for USER => create,
    "create_trigger" in "triggers": "Create a trigger: tell an agentable something, or start a task or a plan, at times, at words or at events.",
    params(Keyed),
    body [CreateTrigger],
    201 "The new trigger." [houston_protocol::trigger::TriggerResponse],
    404 "`not_found`: the user has no such agentable.",
    409 "`full`: the user has the maximum number of triggers.";

    get "/v1/triggers/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<TriggerId>| found(ctx.store().trigger(id).await.map(response)),
    "get_trigger" in "triggers": "Get a trigger: when it is due, how often it has fired, and why it was refused.",
    200 "The trigger." [TriggerResponse];

    patch "/v1/triggers/{id}" for ROW => change,
    "update_trigger" in "triggers": "Change a trigger; fields not given stay as they are.",
    body [UpdateTrigger],
    200 "The trigger." [TriggerResponse];

    delete "/v1/triggers/{id}" for ROW =>
        async |ctx: Ctx, Id(id): Id<TriggerId>| gone(ctx.store().delete_trigger(id).await),
    "delete_trigger" in "triggers": "Delete a trigger.",
    204 "It is deleted. Messages that it has posted stay.";

    get "/v1/triggers/{id}/firings" for ROW => firings,
    "list_trigger_firings" in "triggers": "List the last 20 times that a trigger was due: what it has made, or why it did not fire.",
    200 "The firings, the latest first." [TriggerFiringList];
}

/// The plans that an agentable may have: their kind, and the tools that their steps may call.
type PlanOffer = (String, Vec<String>);

type AgentTypes = BTreeMap<String, AgentType>;

/// All triggers of a user; there are at most 100.
async fn list(ctx: Ctx, Id(user): Id<UserId>) -> Result<Json<TriggerList>> {
    ctx.store().user(user).await?;
    let triggers = ctx.store().triggers(user).await?;
    Ok(Json(TriggerList { data: triggers.into_iter().map(response).collect() }))
}

async fn due(ctx: Ctx) -> Result<impl IntoResponse> {
    let ask = |cell: Arc<App>| async move {
        Ok(match ctx.caller.user() {
            None => cell.store(ctx.caller).due_triggers().await?,
            Some(user) => cell.store(ctx.caller).triggers(user).await?,
        })
    };
    let (found, missing) = across(&ctx, ask).await?;
    let is_due = |of: &Trigger| of.enabled && of.next_at.is_some();
    let mut triggers: Vec<Trigger> = found.into_iter().flatten().filter(is_due).collect();
    triggers.sort_by_key(|of| of.next_at);
    triggers.truncate(MAX_DUE);
    Ok((missing, Json(TriggerList { data: triggers.into_iter().map(response).collect() })))
}

async fn create(ctx: Ctx, Id(user): Id<UserId>, request: Creation<CreateTrigger>) -> Result<Response> {
    let Creation { value, key } = request;
    let id = ctx.state.ids.beside(user);
    let plans = match &value.then {
        TriggerThen::Plan { agentable_id, .. } => plan_offer(&ctx, (user, agentable_id)).await?,
        TriggerThen::Tell { .. } | TriggerThen::Task { .. } => None,
    };
    let expressions = json!({"when": value.when, "then": value.then});
    // Its patterns may be large once they are compiled.
    let (of, now) = (Arc::clone(&ctx.app), ctx.now());
    let checked = move || new_trigger(&of, (id, user), value, (now, plans));
    let trigger = ctx.offload.compute(checked).await??;
    try_expressions(ctx.caller, "", &expressions).await?;
    let (agentable, kind) = &trigger.agentable;
    check_owner(&ctx, user, (*agentable, kind)).await?;
    check_heard(&ctx, user, &trigger.when).await?;
    let (key, body) = once(&key, &response(trigger.clone()));
    let done = ctx.store().create_trigger(&trigger, (key, &body)).await?;
    created(unless_key_reused(done)?, "/v1/triggers")
}

/// The plans that an agentable may have. `None`: none, or the id is not one of an agentable.
async fn plan_offer(ctx: &Ctx, (user, id): (UserId, &str)) -> Result<Option<PlanOffer>> {
    let kinds = &ctx.state.agent_types;
    let Some(path) = AgentablePath::of_public_id(kinds, id) else { return Ok(None) };
    let Some(kind) = kinds.get(&path.kind) else { return Ok(None) };
    // Before anything is said of what it may have.
    check_owner(ctx, user, (path.id, &path.kind)).await?;
    let parent = ctx.store().agentable(&path.kind, path.id).await?;
    let offered = offer(ctx, kind, parent.tools.as_deref()).await?;
    Ok(offered.map(|(kind, tools)| (kind.kind.clone(), tools)))
}

async fn change(
    ctx: Ctx,
    Id(id): Id<TriggerId>,
    Change(value): Change<UpdateTrigger>,
) -> Result<Json<TriggerResponse>> {
    if value == UpdateTrigger::default() {
        let fields = "`name`, `instructions`, `when`, `enabled`";
        return Err(ApiError::field("", format!("nothing to change: give at least one of {fields}")));
    }
    let now = ctx.now();
    let expressions = json!({"when": value.when, "instructions": value.instructions});
    if let Some(name) = &value.name {
        check_name(name)?;
    }
    if let Some(instructions) = &value.instructions {
        check_instructions("/instructions", instructions)?;
    }
    if let Some(when) = &value.when {
        let checked = when.clone();
        ctx.offload.compute(move || check_when(&checked, now)).await??;
        if matches!(when, When::Event { agentable_id: Some(_), .. }) {
            let user = ctx.store().owner_of_row(id.0).await?.user;
            check_heard(&ctx, user, when).await?;
        }
    }
    try_expressions(ctx.caller, "", &expressions).await?;
    Ok(Json(response(ctx.store().change_trigger(id, &value, now).await?)))
}

async fn firings(ctx: Ctx, Id(id): Id<TriggerId>) -> Result<Json<TriggerFiringList>> {
    let firings = ctx.store().trigger_firings(id).await?;
    Ok(Json(TriggerFiringList { data: firings.into_iter().map(Into::into).collect() }))
}

/// A trigger that is due for the first time after `now`. `plans`: those of the agentable, if the trigger starts one.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the part which is not allowed. Whether the user has the agentable is not checked.
fn new_trigger(
    app: &App,
    (id, user): (TriggerId, UserId),
    CreateTrigger { name, when, then }: CreateTrigger,
    (now, plans): (DateTime<Utc>, Option<PlanOffer>),
) -> Result<Trigger> {
    let types = &app.state.agent_types;
    check_name(&name)?;
    let plan = match &then {
        TriggerThen::Tell { instructions, .. } | TriggerThen::Task { instructions, .. } => {
            check_instructions("/then/instructions", instructions)?;
            None
        }
        TriggerThen::Plan { document, input, .. } => Some(plan_of(app, plans, document, input)?),
    };
    let next_at = check_when(&when, now)?;
    let (TriggerThen::Tell { agentable_id, .. }
    | TriggerThen::Task { agentable_id, .. }
    | TriggerThen::Plan { agentable_id, .. }) = &then;
    let path = AgentablePath::of_field(types, "/then/agentable_id", agentable_id)?;
    let kind = types.get(&path.kind).ok_or(ApiError::NotFound("kind"))?;
    let (instructions, task) = match then {
        TriggerThen::Tell { instructions, .. } => {
            hears_triggers(kind)?;
            (instructions, None)
        }
        TriggerThen::Task { kind: of_task, title, instructions, .. } => {
            (instructions, Some(task_of(types, kind, of_task.as_deref(), title)?))
        }
        TriggerThen::Plan { .. } => (String::new(), plan),
    };
    Ok(Trigger {
        id,
        user,
        agentable: (path.id, path.kind),
        name,
        instructions,
        task,
        when,
        next_at,
        enabled: true,
        fired: 0,
        refused: (0, None),
        last_at: None,
        created_at: now,
        updated_at: now,
    })
}

/// The plan, if its document and its input are allowed.
fn plan_of(
    app: &App,
    plans: Option<PlanOffer>,
    document: &Map<String, Value>,
    input: &Map<String, Value>,
) -> Result<TriggerTask> {
    let (document, input) = (Value::Object(document.clone()), Value::Object(input.clone()));
    let (kind, tools) = plans.ok_or_else(|| {
        ApiError::field("/then/type", "such an agentable has no plans here: its kind must have `creates = [\"plan\"]`, and a running server is asked")
    })?;
    check_storable_value("/then/document", &document)?;
    check_storable_value("/then/input", &input)?;
    check_size("/then/input", input.to_string().len(), MAX_INPUT_BYTES)?;
    check_templates("/then/input", &input)?;
    let limits = app.state.plans;
    let names: Vec<&str> = tools.iter().map(String::as_str).collect();
    let offer = Offer { tools: &names, steps: limits.steps_of_request };
    let checked = Document::parse(&document.to_string(), offer)
        .map_err(|problems| invalid("/then/document", problems))?;
    let status = app.state.agent_types.get(&kind).and_then(AgentType::initial_status).map(str::to_owned);
    let plan = Some(Box::new(TriggerPlan { document, input, tools, lasts_s: limits.detached_s }));
    Ok(TriggerTask { kind, status, title: title(&checked.goal), plan })
}

/// An agentable that gets a message must have the mode `trigger`.
fn hears_triggers(found: &AgentType) -> Result<()> {
    if found.modes.contains(&Mode::Trigger) {
        return Ok(());
    }
    let reason = format!("{} has no triggers; only kinds with `modes = [\"trigger\"]` have them", found.kind);
    Err(ApiError::field("/then/agentable_id", reason))
}

/// A task of this kind, or of the first that the agentable may create.
fn task_of(types: &AgentTypes, parent: &AgentType, kind: Option<&str>, title: String) -> Result<TriggerTask> {
    check_line("/then/title", &title, MAX_TITLE_CHARS)?;
    check_template("/then/title", &title)?;
    let found = match kind {
        Some(wanted) => parent.creates.iter().find(|kind| *kind == wanted),
        None => parent.creates.first(),
    };
    let Some(found) = found.and_then(|kind| types.get(kind)) else {
        let may = match parent.creates.join("`, `") {
            kinds if kinds.is_empty() => "it may create none".to_owned(),
            kinds => format!("it may create `{kinds}`"),
        };
        let reason = format!("{} cannot create such tasks; {may}", parent.kind);
        return Err(ApiError::field("/then/kind", reason));
    };
    let (kind, status) = (found.kind.clone(), found.initial_status().map(str::to_owned));
    Ok(TriggerTask { kind, status, title, plan: None })
}

fn response(trigger: Trigger) -> TriggerResponse {
    let (agentable, kind) = trigger.agentable;
    let (refused, refusal) = trigger.refused;
    let (agentable_id, instructions) = (agentable.public_id(&kind), trigger.instructions);
    let then = match trigger.task {
        None => TriggerThen::Tell { agentable_id, instructions },
        Some(TriggerTask { plan: Some(plan), .. }) => {
            let TriggerPlan { document, input, .. } = *plan;
            TriggerThen::Plan { agentable_id, document: object(document), input: object(input) }
        }
        Some(TriggerTask { kind, title, .. }) => {
            TriggerThen::Task { agentable_id, kind: Some(kind), title, instructions }
        }
    };
    TriggerResponse {
        id: trigger.id,
        user_id: trigger.user,
        name: trigger.name,
        when: trigger.when,
        then,
        enabled: trigger.enabled,
        next_at: trigger.next_at.map(Time),
        last_at: trigger.last_at.map(Time),
        fired: trigger.fired,
        refused,
        refusal,
        created_at: Time(trigger.created_at),
        updated_at: Time(trigger.updated_at),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// When it is due first, if that is a time.
///
/// # Errors
/// [`ApiError::InvalidRequest`] that names the part which is not allowed.
fn check_when(when: &When, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>> {
    match when {
        When::Keyword { words, regex } => {
            for (nth, word) in words.iter().enumerate() {
                check_text(&format!("/when/words/{nth}"), word)?;
            }
            check_text("/when/regex", regex.as_deref().unwrap_or_default())?;
        }
        When::Event { kind, condition, .. } => {
            if let Some(kind) = kind {
                check_line("/when/kind", kind, MAX_NAME_CHARS)?;
            }
            check_text("/when/if", condition.as_deref().unwrap_or_default())?;
        }
        When::Cron { .. } => {}
    }
    when.first_after(now).map_err(|error| error.below("/when").into())
}

/// Checks that the user has an agentable of this kind.
///
/// # Errors
/// [`ApiError::NotFound`], in the same words for another user's and for none; the store's errors.
async fn check_owner(ctx: &Ctx, user: UserId, (agentable, kind): (AgentableId, &str)) -> Result<()> {
    let stored = ctx.store().kind_for_trigger(user, agentable).await?;
    if stored == kind { Ok(()) } else { Err(ApiError::NotFound("agentable")) }
}

/// Checks that the agentable whose events alone are heard, if there is one, is the user's.
///
/// # Errors
/// [`ApiError::InvalidRequest`], in the same words for another user's and for none; the store's errors.
async fn check_heard(ctx: &Ctx, user: UserId, when: &When) -> Result<()> {
    let When::Event { agentable_id: Some(id), .. } = when else { return Ok(()) };
    let unknown = || ApiError::field("/when/agentable_id", "is no agentable of this user");
    let path = AgentablePath::of_public_id(&ctx.state.agent_types, id).ok_or_else(unknown)?;
    match check_owner(ctx, user, (path.id, &path.kind)).await {
        Err(ApiError::NotFound(_)) => Err(unknown()),
        checked => checked,
    }
}

fn check_name(name: &str) -> Result<()> {
    check_line("/name", name, MAX_NAME_CHARS)
}

fn check_instructions(pointer: &str, instructions: &str) -> Result<()> {
    check_bytes(pointer, instructions, MAX_INSTRUCTIONS_BYTES)?;
    ensure!(!instructions.trim().is_empty(), ApiError::field(pointer, "must not be empty"));
    Ok(check_template(pointer, instructions)?)
}
