//! `GET /v1/{kinds}/{id}/notes` and the other knowledge resources: newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;

use super::{KnowledgeResource, Owner};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

pub(crate) async fn list<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    owner: N::Owner,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(N::LIST)?.map(N::Id::from));
    owner.confirm(&app, caller).await?;
    let items = app.store(caller).list_items::<N::Stored>(owner.id(), before, rows(limit)).await?;
    let items: Vec<N::Response> = items.into_iter().map(N::response).collect();
    let position = |item: &N::Response| -> u128 { N::id(item).into().as_u128() };
    Ok(Json(Page::of(N::LIST, limit, items, position, |item| item)))
}
