//! `GET /v1/sessions/{id}`: one closed session.

use crate::reads::get_by_id;
use crate::sessions::response;

get_by_id! {
    path: "/v1/sessions/{id}", tag: "sessions", operation: "get_session",
    summary: "Get a closed session.",
    id: SessionId, "Id of the session.",
    method: session, body: houston_protocol::session::SessionResponse, "The session.",
}
