//! `GET /v1/questions?user_id=&kind=`: open questions, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::UserId;
use houston_domain::question::QuestionKind;
use serde::Deserialize;

use crate::auth::Caller;
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::page::{List, Page, PageQuery, rows};
use crate::query::Query;
use crate::questions::response;
use crate::state::App;

/// The query: page parameters, a user and a kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    user_id: Option<String>,
    kind: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

endpoint! {
    LIST: get "/v1/questions" => list,
    tag = "questions",
    operation_id = "list_questions",
    summary = "List open questions of the tenant or of one user, newest first.",
    params(
        ("user_id" = Option<houston_protocol::schema::UserId>, Query, description = "Only questions of this user's agents."),
        ("kind" = Option<houston_protocol::schema::QuestionKind>, Query, description = "Only questions of this kind; `approval`: calls that a person must allow, and paused runs."),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Maximum number of items on the page; 20 by default."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page.")
    ),
    responses((status = 200, description = "A page of open questions.", body = houston_protocol::page::Page<houston_protocol::question::QuestionResponse>)),
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<Filter>,
) -> Result<impl IntoResponse, ApiError> {
    let Filter { user_id, kind, limit, cursor } = query;
    let user = user_id
        .map(|id| id.parse::<UserId>().map_err(|error| ApiError::parameter("user_id", error.to_string())))
        .transpose()?;
    let user = caller.list_of(user)?;
    let kind = kind
        .map(|name| {
            let unknown = || ApiError::parameter("kind", "must be approval, input or budget".to_owned());
            QuestionKind::from_name(&name).ok_or_else(unknown)
        })
        .transpose()?;
    let page = PageQuery { limit, cursor };
    let (limit, before) = (page.limit()?, page.id(List::Questions)?.map(Into::into));
    let questions = app.store(caller).open_questions(user, kind, before, rows(limit)).await?;
    Ok(Json(Page::of(List::Questions, limit, questions, |row| row.question.asked.id.0.as_u128(), response)))
}
