//! Models: those that the operator has configured, with prices, limits and measured speed; and what a request would cost.

pub(crate) mod sampling;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use futures_util::future::BoxFuture;
use houston_domain::answering::Sampling;
use houston_domain::id::TenantId;
use houston_protocol::model::{EstimateModels, MeasuredSpeed, ModelEstimate, ModelResponse, ModelsResponse};
use houston_protocol::problem::FieldError;
use houston_store::model_speed::ModelSpeed;
use tokio::time::Instant;

use self::sampling::model_of;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::explain::ExplainError;
use crate::state::App;

/// A setting that a model does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedSetting {
    /// `temperature`, `top_p`, `stop` or `effort`.
    pub setting: &'static str,
    /// Which model, and why, for people.
    pub why: String,
}

/// The models of the installation. This crate calls none, so the process that wires it passes an implementation.
pub trait ModelCatalogue: fmt::Debug + Send + Sync {
    /// The configured models and their routes, without measured speeds. Nothing of it is secret.
    fn models(&self) -> BoxFuture<'static, Result<ModelsResponse, ExplainError>>;

    /// The first of these settings that a model does not accept, and why. `model`: as `own_model` of [`Self::estimate`]; of a
    /// use case the first model counts.
    fn refusal(
        &self,
        model: String,
        sampling: Sampling,
    ) -> BoxFuture<'static, Result<Option<RefusedSetting>, ExplainError>>;

    /// What a request would cost. `own_model`: the model of the agent that is asked about, as `provider/model`, or the name of a
    /// provider, or of a use case. The inner error says which field names what does not exist.
    fn estimate(
        &self,
        asked: EstimateModels,
        own_model: Option<String>,
    ) -> BoxFuture<'static, Result<Result<ModelEstimate, FieldError>, ExplainError>>;
}

endpoint! {
    LIST: get "/v1/models" => list,
    tag = "models",
    operation_id = "list_models",
    summary = "List the models of the installation, with prices, limits, capabilities and measured speed.",
    responses(
        (status = 200, description = "All models, and which serve which use case.", body = houston_protocol::model::ModelsResponse)
    ),
}

pub(crate) async fn list(State(app): State<Arc<App>>, caller: Caller) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(all(&app, caller).await?))
}

endpoint! {
    GET: get "/v1/models/{id}" => get,
    tag = "models",
    operation_id = "get_model",
    summary = "Get a model of the installation.",
    params(
        ("id" = String, Path, description = "`provider/model`; the slash is written as `%2F`.", example = "openai%2Fgpt-5-mini")
    ),
    responses(
        (status = 200, description = "The model.", body = houston_protocol::model::ModelResponse)
    ),
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let models = all(&app, caller).await?;
    let model = models.data.into_iter().find(|model| model.id == id);
    model.map(Json).ok_or(ApiError::NotFound { what: "model" })
}

/// The most bytes of texts, and the most tokens of one kind, that are asked about. Estimating that many bytes takes some
/// milliseconds.
const MAX_BYTES: usize = 256 * 1024;
const MAX_TOKENS: u64 = 100_000_000;

endpoint! {
    ESTIMATE: post "/v1/models/estimate" => estimate,
    tag = "models",
    operation_id = "estimate_models",
    summary = "Estimate what a request would cost, with each model and each strategy.",
    request_body = EstimateModels,
    responses(
        (status = 200, description = "The costs.", body = houston_protocol::model::ModelEstimate),
        (status = 404, description = "The tenant has no such agent.")
    ),
}

/// Nothing is sent to a model.
async fn estimate(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Creation<EstimateModels>,
) -> Result<impl IntoResponse, ApiError> {
    let asked = request.value;
    check(&asked)?;
    let kinds = &app.state.agent_types;
    let mut own_model = None;
    if let Some(kind) = &asked.kind {
        let of = kinds.get(kind).ok_or_else(|| {
            let all: Vec<&str> = kinds.keys().map(String::as_str).collect();
            ApiError::field("/kind", format!("is no agent type; there are: {}", all.join(", ")))
        })?;
        own_model = Some(of.use_case.clone());
    }
    if let Some(id) = asked.agent_id {
        let settings = app.store(caller).agent(id).await?.settings;
        own_model = Some(model_of(&settings));
    }
    let estimate = app.state.models.estimate(asked, own_model);
    let estimate = estimate.await?.map_err(|error| ApiError::InvalidRequest { errors: vec![error] })?;
    Ok(Json(estimate))
}

/// # Errors
/// [`ApiError::InvalidRequest`] when fields contradict each other, or a number is too large.
fn check(asked: &EstimateModels) -> Result<(), ApiError> {
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

/// How long measured speeds are used again.
const FRESH: Duration = Duration::from_secs(60);
/// Maximum number of tenants whose speeds are cached. The cache is cleared when it is full.
const MAX_CACHED: usize = 1_000;

type Measured = (Instant, Arc<[ModelSpeed]>);

/// The measured speeds of each tenant, read once a minute.
#[derive(Debug, Default)]
pub(crate) struct Speeds(Mutex<HashMap<TenantId, Measured>>);

impl Speeds {
    async fn of(&self, app: &App, caller: Caller) -> Result<Arc<[ModelSpeed]>, ApiError> {
        let now = Instant::now();
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = lock().get(&caller.tenant()).cloned();
        if let Some((_, speeds)) = cached.filter(|(at, _)| now < *at + FRESH) {
            return Ok(speeds);
        }
        let speeds: Arc<[ModelSpeed]> = app.store(caller).model_speeds().await?.into();
        let mut cached = lock();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(caller.tenant(), (now, Arc::clone(&speeds)));
        Ok(speeds)
    }
}

/// The models, with how fast they answered the caller's tenant.
async fn all(app: &App, caller: Caller) -> Result<ModelsResponse, ApiError> {
    let mut models = app.state.models.models().await?;
    let speeds = app.speeds.of(app, caller).await?;
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
