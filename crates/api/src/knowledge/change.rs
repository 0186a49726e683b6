//! `PATCH /v1/notes/{id}` and the other knowledge resources: changes the given fields.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use super::KnowledgeResource;
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::state::App;

pub(crate) async fn change<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<N::Id>,
    // A PATCH is idempotent, so the Idempotency-Key is ignored.
    Creation { value: change, key: _ }: Creation<N::Change>,
) -> Result<impl IntoResponse, ApiError> {
    N::check(&change)?;
    let changed = app.store(caller).change_item::<N::Stored>(id, N::change(&change)).await?;
    Ok(Json(N::response(changed)))
}
