//! `DELETE /v1/notes/{id}` and the other knowledge resources.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::KnowledgeResource;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::state::App;

pub(crate) async fn delete<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<N::Id>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_item::<N::Stored>(id).await?;
    Ok(StatusCode::NO_CONTENT)
}
