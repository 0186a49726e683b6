//! `PATCH /v1/notes/{id}` and its likes: what is given changes, the rest stays.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use super::KnowledgeResource;
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::agentable_path::Id;
use crate::state::App;

pub(crate) async fn change<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<N::Id>,
    // Sent twice, it changes nothing twice: a key has nothing to add.
    Creation { value: change, key: _ }: Creation<N::Change>,
) -> Result<impl IntoResponse, ApiError> {
    N::check(&change)?;
    let changed = app.store().change_item::<N::Stored>(caller.tenant, id, N::change(&change)).await?;
    Ok(Json(N::response(changed)))
}
