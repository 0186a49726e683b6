//! `POST /v1/{kinds}/{id}/notes` and its likes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::Response;

use super::{Noun, Owner};
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::idempotency::{Key, answer, made, stored_answer};
use crate::rfc3339::Time;
use crate::state::App;

pub(crate) async fn create<N: Noun>(
    State(app): State<Arc<App>>,
    caller: Caller,
    owner: N::Owner,
    request: Creation<N::New>,
) -> Result<Response, ApiError> {
    let Creation { value: new, key } = request;
    let item = N::make(app.state.ids.next(), &owner, new, Time(app.now()))?;
    owner.confirm(&app, caller).await?;
    let response = serde_json::to_value(&item).unwrap_or_default();
    let key = key.as_ref().map(Key::as_stored);
    let new = N::new(&owner, &item);
    let done = app.store().create_known::<N::Stored>(caller.tenant, &new, key, &response).await?;
    let (stored, replayed) = made(done)?;
    let shown: N::Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/{}/{}", N::PATH, N::id(&shown)))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
