//! `GET /v1/{kinds}?user_id=&status=`: agentables of one kind, newest first; of one user, and of one status, if given.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agentable::AgentType;
use houston_domain::id::UserId;
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::schema;
use houston_store::agentable::{Agentable, AgentableFilter, StoredStatus};
use serde::Deserialize;

use crate::agentables::responses;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::page::{List, Next, PageQuery, rows};
use crate::agentable_path::Kind;
use crate::query::Query;
use crate::state::App;

/// The query: the same as of every list, whose, and of which status.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    user_id: Option<String>,
    status: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/{kinds}",
    tag = "agentables",
    operation_id = "list_agentables",
    summary = "Agentables of a kind, newest first",
    params(
        ("kinds" = String, Path, description = "The plural of a kind.", example = "goals"),
        ("user_id" = Option<schema::UserId>, Query, description = "Of this user alone."),
        ("status" = Option<String>, Query, description = "Of this status alone: one of those of the kind."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Items of the page; 20, if not given."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")
    ),
    responses(
        (status = 200, description = "A page of agentables", body = houston_protocol::page::Page<AgentableResponse>)
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: Kind,
    Query(query): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    let agent_type = app.state.agent_types.get(&kind.name);
    let user = query.user_id.map(|id| {
        id.parse::<UserId>().map_err(|_| ApiError::parameter("user_id", "must be the id of a user: `user_…`"))
    });
    let statuses = query.status.zip(agent_type).map(|(status, kind)| statuses(kind, &status));
    let filter = AgentableFilter { user: user.transpose()?, statuses: statuses.transpose()? };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Agentables)?.map(Into::into));
    if let Some(user) = filter.user {
        app.store().user(caller.tenant, user).await?;
    }
    let mut found = app.store().agentables(caller.tenant, &kind.name, &filter, before, rows(limit)).await?;
    let next = Next::of(List::Agentables, limit, &mut found, |row: &Agentable| row.id.0.as_u128());
    Ok(Json(next.page(responses(&app, caller, found).await?)))
}

/// What is stored of agentables that are shown with this status.
fn statuses(kind: &AgentType, status: &str) -> Result<Vec<StoredStatus>, ApiError> {
    if !kind.statuses.iter().any(|known| known == status) {
        let allowed = kind.statuses.join(", ");
        let told = format!("no {} has this status; allowed: {allowed}", kind.kind);
        return Err(ApiError::parameter("status", told));
    }
    let shown = kind.shown_as(status).into_iter();
    Ok(shown.map(|(stored, run)| (stored.map(str::to_owned), run)).collect())
}
