//! `GET /v1/{kinds}/{id}/sessions`: closed sessions, newest first.

use crate::page::List;
use crate::reads::list_of_agentable;
use crate::sessions::response;

list_of_agentable! {
    path: "/v1/{kinds}/{id}/sessions", tag: "sessions", operation: "list_sessions",
    summary: "List the closed sessions of an agentable, newest first.",
    list: Sessions, from: query => query.position(List::Sessions)?, position: |row| i64::from(row.number),
    method: sessions, body: houston_protocol::session::SessionResponse, "A page of sessions.",
}
