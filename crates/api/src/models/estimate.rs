//! `POST /v1/models/estimate`: what a request would cost. Nothing is sent to a model.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_protocol::model::EstimateModels;

use super::sampling::model_of;
use crate::auth::Caller;
use crate::body::Creation;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

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

pub(crate) async fn estimate(
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
