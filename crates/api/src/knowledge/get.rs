//! `GET /v1/notes/{id}` and the other knowledge resources.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use super::KnowledgeResource;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

pub(crate) async fn get<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<N::Id>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(N::response(app.store(caller).item::<N::Stored>(id).await?)))
}
