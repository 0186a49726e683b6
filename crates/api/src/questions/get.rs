//! `GET /v1/questions/{id}`: one question.

use houston_protocol::question::QuestionResponse;

use crate::questions::response;
use crate::reads::get_by_id;

get_by_id! {
    path: "/v1/questions/{id}", tag: "questions", operation: "get_question",
    summary: "Get a question.",
    id: QuestionId, "Id of the question.",
    method: question, body: QuestionResponse, "The question.",
}
