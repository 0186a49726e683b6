//! Todos: what a user wants to get done.

pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;

use chrono_tz::Tz;
use houston_domain::knowledge::MAX_TITLE_CHARS;
use houston_domain::todo::{Due, MAX_DETAILS_BYTES, MAX_LIST_CHARS};
use houston_protocol::time::Time;
use houston_protocol::todo::TodoResponse;
use houston_store::todo::Todo;

use crate::body::{check_line, check_size, check_text};
use crate::error::ApiError;

fn response(todo: Todo) -> TodoResponse {
    let (due, time_zone, due_at) = match todo.due {
        Some((due, zone, at)) => (Some(due), Some(zone), Some(Time(at))),
        None => (None, None, None),
    };
    TodoResponse {
        id: todo.id,
        user_id: todo.user,
        list: todo.list,
        title: todo.title,
        details: todo.details,
        priority: todo.priority,
        due,
        time_zone,
        due_at,
        done_at: todo.done_at.map(Time),
        untrusted: todo.untrusted,
        created_at: Time(todo.created_at),
        updated_at: Time(todo.updated_at),
    }
}

/// Checks the texts that are given.
fn check(title: Option<&str>, details: Option<&str>, list: Option<&str>) -> Result<(), ApiError> {
    if let Some(title) = title {
        check_line("/title", title, MAX_TITLE_CHARS)?;
    }
    if let Some(details) = details {
        check_text("/details", details)?;
        check_size("/details", details.len(), MAX_DETAILS_BYTES)?;
    }
    if let Some(list) = list.filter(|list| !list.is_empty()) {
        check_line("/list", list, MAX_LIST_CHARS)?;
    }
    let has_lines = |text: Option<&str>| text.is_some_and(|text| text.contains(['\n', '\r']));
    for (pointer, text) in [("/title", title), ("/list", list)] {
        if has_lines(text) {
            return Err(ApiError::field(pointer, "must be one line"));
        }
    }
    Ok(())
}

/// When a todo is due, by the time zone of the request or else that of the user.
fn due(text: &str, zone: Option<&str>, of_user: &str) -> Result<Due, ApiError> {
    let zone: Tz = match zone {
        Some(name) => name.parse().map_err(|_| {
            let reason =
                format!("`{name}` is not a time zone; use an IANA name such as Europe/Berlin or UTC");
            ApiError::field("/time_zone", reason)
        })?,
        None => houston_domain::local_time::parse_zone(of_user),
    };
    Due::parse(text, zone).map_err(|error| ApiError::field("/due", error.to_string()))
}
