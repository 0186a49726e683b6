//! `POST /v1/questions/{id}/links`: makes a link with which a person decides the question without an API key.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use houston_domain::id::QuestionId;
use houston_domain::question::{MAX_ANSWERED_BY_CHARS, QuestionState, link};
use houston_protocol::question::{ApprovalLink, CreateApprovalLink};
use houston_protocol::time::Time;

use crate::agentable_path::Id;
use crate::approve::is_decidable;
use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::state::App;

endpoint! {
    CREATE: post "/v1/questions/{id}/links" => create,
    tag = "questions",
    operation_id = "create_approval_link",
    summary = "Make a link with which a person decides an open question without an API key.",
    params(("id" = houston_protocol::schema::QuestionId, Path, description = "Id of the question.")),
    request_body = CreateApprovalLink,
    responses(
        (status = 201, description = "The link. Only its hash is stored, so it cannot be read again.", body = ApprovalLink),
        (status = 409, description = "`question_closed`: it is not open any more; `full`: it has the maximum number of links.")
    ),
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<QuestionId>,
    // Each request makes a link, with the Idempotency-Key as well: the first one cannot be shown again.
    Creation { value: CreateApprovalLink { answered_by }, key: _ }: Creation<CreateApprovalLink>,
) -> Result<impl IntoResponse, ApiError> {
    if let Some(name) = &answered_by {
        check_line("/answered_by", name, MAX_ANSWERED_BY_CHARS)?;
    }
    let store = app.store(caller);
    let asked = store.question(id).await?;
    let state = asked.question.state;
    if state != QuestionState::Open {
        let answer = asked.question.answer.filter(|_| state == QuestionState::Answered);
        return Err(ApiError::QuestionClosed { id, state, answer });
    }
    if !is_decidable(&asked) {
        let reason = "needs another answer than yes or no; POST /v1/questions/{id}/answer answers it";
        return Err(ApiError::parameter("id", reason.to_owned()));
    }
    let token = link::token(&app.state.ids);
    store.create_approval_link(id, &token, answered_by.as_deref()).await?;
    let expires_at = asked.question.asked.expires_at.map(Time);
    Ok((StatusCode::CREATED, Json(ApprovalLink { path: link::path(id, &token), answered_by, expires_at })))
}
