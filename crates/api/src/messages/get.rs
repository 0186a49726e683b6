//! `GET /v1/messages/{id}`: one message and its status.

use houston_protocol::message::MessageResponse;

use crate::messages::response;
use crate::reads::get_by_id;

get_by_id! {
    path: "/v1/messages/{id}", tag: "messages", operation: "get_message",
    summary: "Get a message and its status.",
    id: MessageId, "Id of the message.",
    method: message, body: MessageResponse, "The message.",
}
