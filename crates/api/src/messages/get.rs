//! `GET /v1/messages/{id}`: one message and its status.

use crate::messages::response;
use crate::reads::get_by_id;

get_by_id! {
    path: "/v1/messages/{id}", tag: "messages", operation: "get_message",
    summary: "Get a message and its status.",
    id: MessageId, "Id of the message.",
    method: message, body: houston_protocol::message::MessageResponse, "The message.",
}
