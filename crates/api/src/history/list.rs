//! `GET /v1/{kinds}/{id}/history`: the entries of the history, oldest first.

use houston_protocol::session::HistoryEntryResponse;
use houston_protocol::time::Time;
use houston_store::history::StoredEntry;

use crate::page::List;
use crate::reads::list_of_agentable;

/// The response for a history entry.
pub(crate) fn response(placed: StoredEntry) -> HistoryEntryResponse {
    HistoryEntryResponse {
        position: placed.position,
        run_id: placed.run,
        role: placed.entry.role,
        content: placed.entry.content,
        created_at: Time(placed.created_at),
    }
}

list_of_agentable! {
    path: "/v1/{kinds}/{id}/history", tag: "sessions", operation: "list_history",
    summary: "List the entries of the history, oldest first.",
    list: History, from: query => query.position(List::History)?.unwrap_or(0), position: |row| row.position,
    method: history, body: HistoryEntryResponse, "A page of entries.",
}
