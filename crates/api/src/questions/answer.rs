//! `POST /v1/questions/{id}/answer`: answers a question and wakes its run. Of several answers at once one is accepted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use houston_domain::id::QuestionId;
use houston_domain::question::MAX_ANSWERED_BY_CHARS;
use houston_domain::storable::storable_value;
use houston_protocol::question::AnswerQuestion;
use houston_store::answer::Answered;

use crate::agentable_path::Id;
use crate::auth::Caller;
use crate::body::{Creation, check_line};
use crate::endpoint::endpoint;
use crate::error::ApiError;
use crate::questions::{accept, closed_otherwise, response};
use crate::state::App;

endpoint! {
    ANSWER: post "/v1/questions/{id}/answer" => answer,
    tag = "questions",
    operation_id = "answer_question",
    summary = "Answer a question; its run goes on.",
    params(("id" = houston_protocol::schema::QuestionId, Path, description = "Id of the question.")),
    request_body = AnswerQuestion,
    responses(
        (status = 200, description = "The question with the answer. The same answer again is no error.", body = houston_protocol::question::QuestionResponse),
        (status = 409, description = "`question_closed`: it was answered otherwise, has expired, or is not asked any more.")
    ),
}

pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    caller: Caller,
    Id(id): Id<QuestionId>,
    // A repeated answer is recognised without the Idempotency-Key, which is ignored.
    Creation { value: AnswerQuestion { answer, answered_by }, key: _ }: Creation<AnswerQuestion>,
) -> Result<impl IntoResponse, ApiError> {
    if let Some(name) = &answered_by {
        check_line("/answered_by", name, MAX_ANSWERED_BY_CHARS)?;
    }
    let mut storable = answer.clone();
    storable_value(&mut storable);
    if storable != answer {
        return Err(ApiError::field("/answer", "must not contain the character U+0000"));
    }
    let store = app.store(caller);
    // The schema of a question never changes.
    let asked = store.question(id).await?;
    let question = asked.question.asked;
    question
        .check_answer(&answer)
        .map_err(|wrong| ApiError::field(&format!("/answer{}", wrong.pointer), wrong.reason))?;
    if question.is_client_call() {
        // The client had chosen the function for this call; without this, its run would have to call it again.
        store.release_client_choice(asked.agentable).await?;
    }
    let asked = match accept(&app, store, id, &answer, answered_by.as_deref()).await? {
        Answered::Now(asked) => asked,
        Answered::Closed(asked) if asked.question.answer.as_ref() == Some(&answer) => asked,
        Answered::Closed(asked) => return Err(closed_otherwise(asked)),
    };
    Ok(Json(response(asked)))
}
