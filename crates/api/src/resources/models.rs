//! Models: those that the operator has configured, with prices, limits and measured speed; and what a request would cost.

pub(crate) mod sampling;

use axum::extract::Path;
use houston_protocol::model::{EstimateModels, MeasuredSpeed, ModelResponse, ModelsResponse};
use houston_store::cost::ModelSpeed;

use self::sampling::model_of;

use crate::request::prelude::*;

endpoints! {
    get "/v1/models" for TENANT.all(Scope::Read) => async |ctx: Ctx| all(&ctx).await.map(Json),
    "list_models" in "models": "List the models of the installation, with prices, limits, capabilities and measured speed.",
    200 "All models, and which serve which use case." [houston_protocol::model::ModelsResponse];

    get "/v1/models/{id}" for TENANT.all(Scope::Read) => get,
    "get_model" in "models": "Get a model of the installation.",
    params(("id" = String, Path, description = "`provider/model`; the slash is written as `%2F`.", example = "openai%2Fgpt-5-mini")),
    200 "The model." [houston_protocol::model::ModelResponse];

    post "/v1/models/estimate" for TENANT.all(Scope::Read) => estimate,
    "estimate_models" in "models": "Estimate what a request would cost, with each model and each strategy.",
    body [EstimateModels],
    200 "The costs." [houston_protocol::model::ModelEstimate],
    404 "The tenant has no such agent.";
}

pub(crate) async fn get(ctx: Ctx, Path(id): Path<String>) -> Result<impl IntoResponse> {
    let models = all(&ctx).await?;
    let model = models.data.into_iter().find(|model| model.id == id);
    model.map(Json).ok_or(ApiError::NotFound("model"))
}

/// The most bytes of texts, and the most tokens of one kind, that are asked about. Estimating that many bytes takes some
/// milliseconds.
const MAX_BYTES: usize = 256 * 1024;
const MAX_TOKENS: u64 = 100_000_000;

/// Nothing is sent to a model.
async fn estimate(ctx: Ctx, request: Creation<EstimateModels>) -> Result<impl IntoResponse> {
    let asked = request.value;
    check(&asked)?;
    let kinds = &ctx.state.agent_types;
    let mut own_model = None;
    if let Some(kind) = &asked.kind {
        let of = kinds.get(kind).ok_or_else(|| {
            let all: Vec<&str> = kinds.keys().map(String::as_str).collect();
            ApiError::field("/kind", format!("is no agent type; there are: {}", all.join(", ")))
        })?;
        own_model = Some(of.use_case.clone());
    }
    if let Some(id) = asked.agent_id {
        let settings = ctx.store().agent(id).await?.settings;
        own_model = Some(model_of(&settings));
    }
    let estimate = ctx.state.models.estimate(asked, own_model);
    let estimate = estimate.await?.map_err(|error| ApiError::InvalidRequest(vec![error]))?;
    Ok(Json(estimate))
}

/// # Errors
/// [`ApiError::InvalidRequest`] when fields contradict each other, or a number is too large.
fn check(asked: &EstimateModels) -> Result<()> {
    let whose = [asked.kind.is_some(), asked.use_case.is_some(), asked.agent_id.is_some()];
    if whose.iter().filter(|is_given| **is_given).count() > 1 {
        let pointer = if asked.agent_id.is_some() { "/agent_id" } else { "/use_case" };
        return Err(ApiError::field(pointer, "at most one of `kind`, `use_case` and `agent_id` is allowed"));
    }
    match (asked.messages.is_empty(), asked.input_tokens) {
        (true, None) => {
            return Err(ApiError::field("/messages", "missing field `messages`, or `input_tokens`"));
        }
        (false, Some(_)) => {
            return Err(ApiError::field("/input_tokens", "either `messages` or `input_tokens`, not both"));
        }
        _ => {}
    }
    if asked.messages.iter().map(String::len).sum::<usize>() > MAX_BYTES {
        let detail =
            format!("must have at most {MAX_BYTES} bytes together; send `input_tokens` in place of more");
        return Err(ApiError::field("/messages", detail));
    }
    let tokens = [
        ("/input_tokens", asked.input_tokens.unwrap_or(0)),
        ("/cached_tokens", asked.cached_tokens),
        ("/output_tokens", asked.output_tokens.unwrap_or(0)),
    ];
    match tokens.iter().find(|(_, tokens)| *tokens > MAX_TOKENS) {
        Some((pointer, _)) => Err(ApiError::field(pointer, format!("must be at most {MAX_TOKENS}"))),
        None => Ok(()),
    }
}

/// The measured speeds of the caller's tenant.
async fn speeds(ctx: &Ctx) -> Result<Arc<[ModelSpeed]>> {
    if let Some(fresh) = ctx.speeds.get(ctx.caller.tenant()) {
        return Ok(fresh);
    }
    let speeds: Arc<[ModelSpeed]> = ctx.store().model_speeds().await?.into();
    ctx.speeds.keep(ctx.caller.tenant(), &speeds);
    Ok(speeds)
}

/// The models, with how fast they answered the caller's tenant.
async fn all(ctx: &Ctx) -> Result<ModelsResponse> {
    let mut models = ctx.state.models.models().await?;
    let speeds = speeds(ctx).await?;
    models.data.iter_mut().for_each(|model| model.measured = measured(&speeds, model));
    Ok(models)
}

fn measured(speeds: &[ModelSpeed], model: &ModelResponse) -> Option<MeasuredSpeed> {
    let of = speeds.iter().find(|speed| speed.provider == model.provider && speed.model == model.model)?;
    let tenth = |value: f64| (value * 10.0).round() / 10.0;
    Some(MeasuredSpeed {
        calls: of.calls,
        first_event_ms: tenth(of.first_event_ms),
        tokens_per_s: of.tokens_per_s.map(tenth),
    })
}
