//! `GET /v1/models`: the models of the installation.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use super::all;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

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
