//! `GET /v1/models/{id}`: one model.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;

use super::all;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

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
