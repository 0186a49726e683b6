//! `POST /v1/{kinds}/{id}/notes` and the other knowledge resources.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use houston_protocol::time::Time;

use super::{KnowledgeResource, Owner};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::state::App;

pub(crate) async fn create<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    owner: N::Owner,
    request: Creation<N::New>,
) -> Result<Response, ApiError> {
    let Creation { value: new, key } = request;
    let item = N::build(app.state.ids.beside(owner.id()), &owner, new, Time(app.now()))?;
    owner.confirm(&app, caller).await?;
    let response = stored_body(&item);
    let key = key.as_ref().map(Key::as_stored);
    let new = N::new(&owner, &item);
    let done = app.store(caller).create_item::<N::Stored>(&new, key, &response).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, &format!("/v1/{}", N::PATH))
}
