//! Todos of users.

use houston_domain::id::TodoId;
use houston_domain::todo::Priority;
use serde::{Deserialize, Serialize};

use crate::field::nullable;

/// Creates a todo, which comes last: `{"title": "Buy milk", "due": "2026-12-01"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateTodo {
    /// 1 to 200 characters on one line.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: String,
    /// Up to 4,000 bytes of Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Up to 60 characters on one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// A day, as `2026-12-01`, a local time, as `2026-12-01T15:00`, or a time with an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The time zone of `due`; the user's if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// Changes a todo: given fields are set, others stay. `{"done": true}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateTodo {
    /// 1 to 200 characters on one line.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 200))]
    pub title: Option<String>,
    /// Up to 4,000 bytes of Markdown.
    pub details: Option<String>,
    /// Up to 60 characters on one line; empty: no list.
    pub list: Option<String>,
    pub priority: Option<Priority>,
    /// As in a new todo; null: it is due at no time.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    pub due: Option<Option<String>>,
    /// The time zone of `due`; the user's if it is not given.
    pub time_zone: Option<String>,
    /// Whether it is done.
    pub done: Option<bool>,
    /// The todo of the same user before which it is moved.
    pub before: Option<TodoId>,
}
