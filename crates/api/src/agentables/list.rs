//! `GET /v1/{kinds}?user_id=`: a user's agentables of one kind, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use serde::Deserialize;

use crate::agentables::Shown;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::place::Kind;
use crate::query::Query;
use crate::state::App;

/// The query: the same as of every list, and whose.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfUser {
    user_id: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: Kind,
    Query(query): Query<OfUser>,
) -> Result<impl IntoResponse, ApiError> {
    let user = query.user_id.as_deref().and_then(|id| id.parse::<UserId>().ok());
    let user = user.ok_or_else(|| ApiError::parameter("user_id", "must be the id of a user: `user_…`"))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Agentables)?.map(Into::into));
    app.store().user(caller.tenant, user).await?;
    let agentables = app.store().agentables(caller.tenant, user, &kind.name, before, rows(limit)).await?;
    let known = app.state.agent_types.get(&kind.name);
    let position = |row: &houston_store::agentable::Agentable| row.id.0.as_u128();
    Ok(Json(Page::of(List::Agentables, limit, agentables, position, |row| Shown::new(row, known))))
}
