//! `GET /v1/{kinds}?user_id=&status=`: agentables of one kind, newest first, optionally filtered by user and status.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::agentable::AgentType;
use houston_domain::id::UserId;
use houston_store::agentable::{Agentable, AgentableFilter, StoredStatus};
use serde::Deserialize;

use crate::agentable_path::KindPath;
use crate::agentables::responses;
use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, NextPage, PageQuery, rows};
use crate::query::Query;
use crate::state::App;

/// The query: page parameters and filters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    user_id: Option<String>,
    status: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoint! {
    LIST: get "/v1/{kinds}" => list,
    tag = "agentables",
    operation_id = "list_agentables",
    summary = "List the agentables of a kind, newest first.",
    params(
        ("kinds" = String, Path, description = "Kind of the agentable, in the plural.", example = "goals"),
        ("user_id" = Option<houston_protocol::schema::UserId>, Query, description = "Only agentables of this user."),
        ("status" = Option<String>, Query, description = "Only agentables with this status, one of the statuses of the kind."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses(
        (status = 200, description = "A page of agentables.", body = houston_protocol::page::Page<houston_protocol::agentable::AgentableResponse>)
    ),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    kind: KindPath,
    Query(query): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    let agent_type = app.state.agent_types.get(&kind.name);
    let user = query.user_id.map(|id| {
        id.parse::<UserId>().map_err(|_| ApiError::parameter("user_id", "must be the id of a user, `user_…`"))
    });
    let statuses = query.status.zip(agent_type).map(|(status, kind)| statuses(kind, &status));
    let filter =
        AgentableFilter { user: caller.list_of(user.transpose()?)?, statuses: statuses.transpose()? };
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let (limit, before) = (page.limit()?, page.id(List::Agentables)?.map(Into::into));
    if let Some(user) = filter.user {
        app.store(caller).user(user).await?;
    }
    let mut found = app.store(caller).agentables(&kind.name, &filter, before, rows(limit)).await?;
    let next = NextPage::of(List::Agentables, limit, &mut found, |row: &Agentable| row.id.0.as_u128());
    Ok(Json(next.page(responses(&app, caller, found).await?)))
}

/// The stored status and run status of agentables whose response has `status`.
fn statuses(kind: &AgentType, status: &str) -> Result<Vec<StoredStatus>, ApiError> {
    if !kind.statuses.iter().any(|allowed| allowed == status) {
        let allowed = kind.statuses.join(", ");
        let detail = format!("no {} has this status; allowed: {allowed}", kind.kind);
        return Err(ApiError::parameter("status", detail));
    }
    let pairs = kind.pairs_with_status(status).into_iter();
    Ok(pairs.map(|(stored, run)| (stored.map(str::to_owned), run)).collect())
}
