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
    let (stored, replayed) =
        made(N::insert(app.store(), caller.tenant, &owner, &item, key, &response).await?)?;
    let shown: N::Shown = stored_answer(stored)?;
    let location = [(header::LOCATION, format!("/v1/{}/{}", N::PATH, N::id(&shown)))];
    Ok(answer((StatusCode::CREATED, location, Json(shown)), replayed))
}
