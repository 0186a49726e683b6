//! Debugging views of an agentable: its runtime state (`GET /v1/{kinds}/{id}/state`), why it or a run does not go on (`…/why`),
//! the prompt of its next model call (`…/prompt`), its tools (`…/tools`), and what its guards say of a call.

use axum::body::Body;
use axum::http::header;
use houston_domain::id::{AgentableId, RunId};
use houston_domain::model::ModelError;
use houston_domain::scope::Scope;
use houston_domain::why::Facts;
use houston_protocol::guard::GuardedCall;
use houston_protocol::why::WhyResponse;
use houston_queue::{HintHealth, Lane, RedisState};
use serde_json::Value;

use crate::request::body::JSON;
use crate::request::prelude::*;
use crate::state::documents::{DocumentBody, DocumentPermit};
use crate::wiring::ExplainTopic;

endpoints! {
    get "/v1/runs/{id}/why" for ROW.all(Scope::Operate).unshown() => why_run,
    "explain_run" in "insight": "Explain why a run does not go on, and what to do.",
    200 "The reasons of its agentable, the one that decides first; of a run that newer ones came after: how it ended." [WhyResponse];

    get "/v1/{kinds}/{id}/state" for AGENTABLE.all(Scope::Operate).unshown() => state,
    "get_state" in "insight": "Get the runtime state of an agentable, with a diagnosis.",
    200 "The runtime state." [houston_protocol::schema::RuntimeState];

    get "/v1/{kinds}/{id}/why" for AGENTABLE.all(Scope::Operate).unshown() => why_agentable,
    "explain_agentable" in "insight": "Explain why an agentable does not go on, and what to do.",
    200 "The reasons, the one that decides first." [WhyResponse];

    get "/v1/{kinds}/{id}/prompt" for AGENTABLE.all(Scope::Operate).unshown() => prompt,
    "get_prompt" in "insight": "Get the prompt that the next model call would be sent.",
    description = "Needs the scope `read` besides `operate`: it has the conversation.",
    200 "The prompt." [houston_protocol::schema::Prompt];

    get "/v1/{kinds}/{id}/tools" for AGENTABLE.all(Scope::Operate).unshown() =>
        async |ctx: Ctx, path: AgentablePath| respond(&ctx, &path, ExplainTopic::Tools).await,
    "get_tools" in "insight": "List all tools, and for each whether it may be called or why not.",
    200 "The tools." [houston_protocol::schema::Tools];

    post "/v1/{kinds}/{id}/guards/explain" for AGENTABLE.all(Scope::Operate).unshown() =>
        async |ctx: Ctx, path: AgentablePath, Sent(GuardedCall { tool, input }): Sent<GuardedCall>|
            respond(&ctx, &path, ExplainTopic::Guard { tool, input: Value::Object(input) }).await,
    "explain_guards" in "insight": "Explain which rule of which layer would decide about a tool call.",
    body [GuardedCall],
    200 "The verdict, and each step that was looked at." [houston_protocol::schema::GuardExplanation];
}

/// In the place of a text that the caller may not read.
const HIDDEN: &str = "(to see this text needs the scope `read`)";

async fn state(ctx: Ctx, path: AgentablePath) -> Result<Response> {
    let agentable = ctx.store().agentable(&path.kind, path.id).await?;
    let mut state = ctx.store().state(path.id).await?;
    if let Some(holder) = state.holder.as_mut().filter(|_| !ctx.caller.operates_installation()) {
        // Host names are not for tenants.
        holder.name = None;
    }
    if let Some(error) = state.last_error.as_mut().filter(|_| !ctx.caller.reads_contents()) {
        HIDDEN.clone_into(&mut error.message);
    }
    let kind = ctx.state.agent_types.get(&path.kind);
    let status = kind.and_then(|kind| kind.status(agentable.status.as_deref(), agentable.run_status));
    Ok(Json(state.view(&path.kind, path.id, status)).into_response())
}

async fn why_agentable(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    ctx.confirm(&path).await?;
    let facts = facts(&ctx, path.id, Lane::from(path.urgency)).await?;
    Ok(Json(WhyResponse::new(path.public_id(), facts.reasons())))
}

async fn why_run(ctx: Ctx, Id(id): Id<RunId>) -> Result<impl IntoResponse> {
    let run = ctx.store().run(id).await?;
    let facts = facts(&ctx, run.owner.id, Lane::from(ctx.urgency(&run.owner.kind))).await?;
    let message = run.error_message().map(|text| if ctx.caller.reads_contents() { text } else { HIDDEN });
    let error = run.error_code().zip(message);
    let public_id = run.owner.id.public_id(&run.owner.kind);
    Ok(Json(WhyResponse::new(public_id, facts.reasons_of(run.id, run.status, error))))
}

/// The facts about an agentable, and what this process knows of the health of the installation. Without the texts of
/// people, models and tools, if the caller may not read them.
async fn facts(ctx: &Ctx, id: AgentableId, lane: Lane) -> Result<Facts> {
    let found = ctx.api_store().health().await?;
    let checked_at = found.checked_at;
    let mut health = found.facts();
    let hints = HintHealth { read: ctx.state.redis.clone(), write: ctx.state.hints.health.clone() };
    match hints.state() {
        RedisState::Down { since } => health.redis_down_since = Some(since),
        RedisState::Up { since } if checked_at.is_some_and(|at| at < since) => health.forget_redis(),
        RedisState::Absent | RedisState::Up { .. } => {}
    }
    let mut facts = ctx.store().why(id, lane.as_str(), health).await?;
    if !ctx.caller.reads_contents() {
        facts.questions.iter_mut().for_each(|question| HIDDEN.clone_into(&mut question.text));
        if let Some(error) = &mut facts.state.last_error {
            // This much says whether a circuit breaker is open.
            let is_breaker = ModelError::none_was_called(&error.message);
            let text = if is_breaker { ModelError::NOT_CALLED } else { HIDDEN };
            text.clone_into(&mut error.message);
        }
    }
    Ok(facts)
}

/// `GET /v1/{kinds}/{id}/prompt`: the exact prompt, by parts and by sections. It may be as long as the conversation.
async fn prompt(ctx: Ctx, path: AgentablePath) -> Result<impl IntoResponse> {
    let agentable = ctx.store().agentable(&path.kind, path.id).await?;
    ctx.caller.needs(Scope::Read)?;
    let explanation = ctx.state.explain.get(ExplainTopic::Prompt, agentable);
    // Writing a JSON value cannot fail.
    let written = async move { Ok(serde_json::to_string(&explanation.await?).unwrap_or_default()) };
    let text = ctx.offload.drive(written).await?;
    // As much as it has, and no more: most prompts are short, and are sent beside a long export.
    let permit = DocumentPermit::new(&ctx.documents, ctx.caller.tenant(), text.len()).await?;
    Ok(([(header::CONTENT_TYPE, JSON)], Body::new(DocumentBody::new(text, permit))))
}

async fn respond(ctx: &Ctx, path: &AgentablePath, topic: ExplainTopic) -> Result<Json<Value>> {
    let agentable = ctx.store().agentable(&path.kind, path.id).await?;
    // Reading a long conversation takes too long for a thread of the runtime.
    let explanation = ctx.state.explain.get(topic, agentable);
    ctx.offload.drive(async move { Ok(Json(explanation.await?)) }).await
}
