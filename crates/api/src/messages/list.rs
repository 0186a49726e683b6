//! `GET /v1/{kinds}/{id}/messages`: the thread, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::messages::Shown;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Place;
use crate::query::Query;
use crate::state::App;

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    place: Place,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.position(List::Messages)?);
    app.confirm(caller, &place).await?;
    let messages = app.store().messages(caller.tenant, place.id, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Messages, limit, messages, |row| row.message.seq, Shown::from)))
}
