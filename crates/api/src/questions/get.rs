//! `GET /v1/questions/{id}`: one question.

use crate::questions::response;
use crate::reads::get_by_id;

get_by_id! {
    path: "/v1/questions/{id}", tag: "questions", operation: "get_question",
    summary: "Get a question.",
    id: QuestionId, "Id of the question.",
    method: question, body: houston_protocol::question::QuestionResponse, "The question.",
}
