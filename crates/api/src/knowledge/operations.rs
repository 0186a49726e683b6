//! The five operations on a resource: list, create, get, change, delete.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use houston_store::knowledge_item::{KnowledgeChange, KnowledgeItem, NewKnowledgeItem};
use uuid::Uuid;

use super::body::{ItemChange as _, NewItem as _, check};
use super::{KnowledgeResource, Owner};
use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::Creation;
use crate::error::ApiError;
use crate::fields::Change;
use crate::idempotency::{Key, created, stored_body, unless_key_reused};
use crate::page::{Page, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

/// `GET /v1/{kinds}/{id}/notes`: newest first.
pub(super) async fn list<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    owner: N::Owner,
    Query(query): Query<PageQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let (limit, before) = (query.limit()?, query.id(N::LIST)?);
    owner.confirm(&app, caller).await?;
    let items = app.store(caller).list_items((N::KIND, owner.id()), before, rows(limit)).await?;
    let position = |item: &KnowledgeItem| item.id.as_u128();
    Ok(Json(Page::of(N::LIST, limit, items, position, N::response)))
}

/// `POST /v1/{kinds}/{id}/notes`.
pub(super) async fn create<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    owner: N::Owner,
    request: Creation<N::New>,
) -> Result<Response, ApiError> {
    let Creation { value: new, key } = request;
    let (title, content) = new.texts();
    check(N::KIND.rules().form, title.as_deref(), Some(&content))?;
    owner.confirm(&app, caller).await?;
    let (id, now): (Uuid, _) = (app.state.ids.beside(owner.id()), app.now());
    let new = NewKnowledgeItem {
        id,
        kind: N::KIND,
        owner: owner.id(),
        author: None,
        title: title.as_deref(),
        content: &content,
        untrusted: false,
        created_at: Some(now),
    };
    let item = KnowledgeItem {
        id,
        kind: N::KIND,
        owner: owner.id(),
        owner_kind: owner.kind().map(str::to_owned),
        run: None,
        title: title.clone(),
        content: content.clone(),
        untrusted: false,
        read_at: None,
        created_at: now,
        updated_at: now,
    };
    let response = stored_body(&N::response(item));
    let key = key.as_ref().map(Key::as_stored);
    let done = app.store(caller).create_item(&new, key, &response).await?;
    let (stored, replayed) = unless_key_reused(done)?;
    created(stored, replayed, &format!("/v1/{}", N::PATH))
}

/// `GET /v1/notes/{id}`.
pub(super) async fn get<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<N::Id>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(N::response(app.store(caller).item((N::KIND, id.into())).await?)))
}

/// `PATCH /v1/notes/{id}`: changes the given fields.
pub(super) async fn change<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<N::Id>,
    // A PATCH is idempotent, so the Idempotency-Key is ignored.
    Change(value): Change<N::Change>,
) -> Result<impl IntoResponse, ApiError> {
    let change = value.change();
    if change == KnowledgeChange::default() {
        let fields = <N::Change as super::body::ItemChange>::FIELDS;
        return Err(ApiError::field("", format!("nothing to change: give at least one of {fields}")));
    }
    check(N::KIND.rules().form, change.title, change.content)?;
    let changed = app.store(caller).change_item((N::KIND, id.into()), change).await?;
    Ok(Json(N::response(changed)))
}

/// `DELETE /v1/notes/{id}`.
pub(super) async fn delete<N: KnowledgeResource>(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<N::Id>,
) -> Result<StatusCode, ApiError> {
    app.store(caller).delete_item((N::KIND, id.into())).await?;
    Ok(StatusCode::NO_CONTENT)
}
