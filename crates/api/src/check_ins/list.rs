//! `GET /v1/{kinds}/{id}/check-ins`: check-ins that have not started, newest first.

use crate::check_ins::response;
use crate::page::List;
use crate::reads::list_of_agentable;

list_of_agentable! {
    path: "/v1/{kinds}/{id}/check-ins", tag: "check-ins", operation: "list_check_ins",
    summary: "List the check-ins that have not started yet, newest first.",
    list: CheckIns, from: query => query.id(List::CheckIns)?.map(Into::into), position: |row| row.id.0.as_u128(),
    method: check_ins, body: houston_protocol::check_in::CheckInResponse, "A page of check-ins.",
}
