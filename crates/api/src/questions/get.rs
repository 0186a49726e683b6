//! `GET /v1/questions/{id}`: one question.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::QuestionId;
use houston_protocol::question::QuestionResponse;
use houston_protocol::schema;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::questions::response;
use crate::state::App;

#[utoipa::path(
    get,
    path = "/v1/questions/{id}",
    tag = "questions",
    operation_id = "get_question",
    summary = "Get a question.",
    params(("id" = schema::QuestionId, Path, description = "Id of the question.")),
    responses((status = 200, description = "The question.", body = QuestionResponse)),
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<QuestionId>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(Json(response(app.store(caller).question(id).await?)))
}
