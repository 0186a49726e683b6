//! Todos: what a user wants to get done, in lists that all their agents share.
//!
//! A todo is due on a day or at a time of day in a time zone, which is that of its user unless something else is said. It is
//! overdue from [`Due::at`] on: the end of that day, or that time.

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::field::FieldType::{Boolean, String as Text};
use crate::field::UpdatableBy::{Api, Both};
use crate::field::{Field, Max, field};
use crate::id::{TodoId, UserId};
use crate::knowledge::MAX_TITLE_CHARS;
use crate::local_time::{instant, parse_local};
use crate::nullable::nullable;
use crate::time::Time;

/// Maximum length of the name of a list, in characters.
pub const MAX_LIST_CHARS: usize = 60;
/// Maximum length of the details of a todo, in bytes.
pub const MAX_DETAILS_BYTES: usize = 4_000;
/// Maximum number of todos that one call adds.
pub const MAX_ADDED_TODOS: usize = 50;
/// The distance between the positions of two todos that were added one after the other.
pub const STEP: f64 = 1024.0;

names! {
    /// How much a todo matters.
    #[derive(PartialOrd, Ord, Hash, Default)]
    pub enum Priority {
        /// Less than others.
        Low = "low",
        /// As much as most.
        #[default]
        Normal = "normal",
        /// More than others.
        High = "high",
    }
}

impl Priority {
    /// The number in the database: greater is more important.
    pub fn stored(self) -> i16 {
        self as i16
    }

    /// The priority with this number.
    pub fn from_stored(stored: i16) -> Self {
        match stored {
            ..=0 => Self::Low,
            1 => Self::Normal,
            2.. => Self::High,
        }
    }
}

/// A todo: what a user wants to get done. All their agents see it.
///
/// ```json
/// {"id": "todo_0190…", "user_id": "user_0190…", "list": "errands", "title": "Buy milk", "details": "", "priority": "high",
///  "due": "2026-12-01", "time_zone": "Europe/Berlin", "due_at": "2026-12-01T23:00:00.000Z", "done_at": null,
///  "untrusted": false, "created_at": "2026-11-22T09:00:00.000Z", "updated_at": "2026-11-22T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TodoResponse))]
pub struct Todo {
    pub id: TodoId,
    #[serde(rename = "user_id")]
    pub user: UserId,
    /// The name of its list; empty: no list.
    pub list: String,
    pub title: String,
    pub details: String,
    pub priority: Priority,
    /// The local day, as `2026-12-01`, or time, as `2026-12-01T15:00`; null: it is due at no time.
    pub due: Option<String>,
    /// The time zone of `due`: an IANA name.
    pub time_zone: Option<String>,
    /// From when on it is overdue: the end of that day, or that time.
    pub due_at: Option<Time>,
    /// Its place in the order of lists: a lesser one comes first.
    #[serde(skip)]
    pub position: f64,
    /// When it was done; null: it is open.
    pub done_at: Option<Time>,
    /// Whether an agent wrote it after it had read what strangers wrote.
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

/// The fields that may be changed.
pub(crate) const FIELDS: [Field; 8] = [
    field("title", Text, Both, "One line.").at_most(Max::Chars(MAX_TITLE_CHARS)).not_empty(),
    field("details", Text, Both, "Markdown, at most 4,000 bytes.").at_most(Max::Bytes(MAX_DETAILS_BYTES)),
    field("list", Text, Both, "The name of a list, one line; empty: no list.")
        .at_most(Max::Chars(MAX_LIST_CHARS)),
    field("priority", Text, Both, "How much it matters.").one_of(&["low", "normal", "high"]),
    field(
        "due",
        Text,
        Both,
        "A day, as `2026-12-01`, a local time, as `2026-12-01T15:00`, or a time with an offset.",
    )
    .or_null(),
    field("time_zone", Text, Api, "The time zone of `due`: an IANA name."),
    field("done", Boolean, Both, "Whether it is done."),
    field("before", Text, Both, "The todo of the same user before which it is moved."),
];

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

/// A change of a todo; `None` leaves the value as it is. A new todo is a change of an empty one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TodoChange {
    /// The new name of its list.
    pub list: Option<String>,
    /// The new title.
    pub title: Option<String>,
    /// The new details.
    pub details: Option<String>,
    /// The new priority.
    pub priority: Option<Priority>,
    /// When it is due; `Some(None)`: at no time.
    pub due: Option<Option<Due>>,
    /// Whether it is done.
    pub done: Option<bool>,
}

impl CreateTodo {
    /// The texts to be checked, by the names of their fields.
    pub fn texts(&self) -> [(&'static str, Option<&str>); 3] {
        [("title", Some(&self.title)), ("details", self.details.as_deref()), ("list", self.list.as_deref())]
    }

    /// The todo as a change of an empty one.
    pub fn into_change(self, due: Option<Due>) -> TodoChange {
        let Self { title, details, list, priority, .. } = self;
        TodoChange { list, title: Some(title), details, priority, due: due.map(Some), done: None }
    }
}

impl TodoChange {
    /// When it is due then, if that is changed.
    pub fn new_due(&self) -> Option<&Due> {
        self.due.as_ref().and_then(Option::as_ref)
    }

    /// The new todo as it is at the time of its creation. Its position is not known.
    pub fn created(&self, id: TodoId, user: UserId, now: Time) -> Todo {
        let due = self.new_due();
        Todo {
            id,
            user,
            list: self.list.clone().unwrap_or_default(),
            title: self.title.clone().unwrap_or_default(),
            details: self.details.clone().unwrap_or_default(),
            priority: self.priority.unwrap_or_default(),
            due: due.map(|due| due.local.clone()),
            time_zone: due.map(|due| due.zone.to_string()),
            due_at: due.map(|due| Time(due.at)),
            position: 0.0,
            done_at: None,
            untrusted: false,
            created_at: now,
            updated_at: now,
        }
    }
}

impl UpdateTodo {
    /// As in [`CreateTodo::texts`].
    pub fn texts(&self) -> [(&'static str, Option<&str>); 3] {
        let Self { title, details, list, .. } = self;
        [("title", title.as_deref()), ("details", details.as_deref()), ("list", list.as_deref())]
    }

    /// The change, without the new place.
    pub fn into_change(self, due: Option<Option<Due>>) -> TodoChange {
        let Self { list, title, details, priority, done, .. } = self;
        TodoChange { list, title, details, priority, due, done }
    }
}

/// When a todo is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The local day or time: `2026-12-01`, `2026-12-01T15:00`.
    pub local: String,
    /// The time zone of that day or time.
    pub zone: Tz,
    /// From when on it is overdue.
    pub at: DateTime<Utc>,
}

impl Due {
    /// Parses a day, a local time of `zone`, or a time with an offset, which becomes a local time of `zone`.
    ///
    /// # Errors
    /// It is none of them, or the clocks of the zone never show it.
    pub fn parse(given: &str, zone: Tz) -> Result<Self, String> {
        let text = given.trim();
        let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
        let due = match day {
            Some(day) => Self::on(day, zone),
            None => match parse_local(text) {
                Some(local) => instant(zone, local).map(|at| Self::at_time(at, zone)),
                None => DateTime::from_str(text).ok().map(|at: DateTime<Utc>| Self::at_time(at, zone)),
            },
        };
        let forms = "2026-12-01, 2026-12-01T15:00 (local time) or 2026-12-01T15:00:00Z";
        due.ok_or_else(|| format!("`{text:.60}` is not a day or a time: write {forms}"))
    }

    /// The end of a day is the beginning of the next one that the zone has.
    fn on(day: NaiveDate, zone: Tz) -> Option<Self> {
        let mut next = day.succ_opt()?;
        let at = match instant(zone, next.and_time(NaiveTime::MIN)) {
            Some(at) => at,
            None => {
                next = next.succ_opt()?;
                instant(zone, next.and_time(NaiveTime::MIN))?
            }
        };
        Some(Self { local: day.format("%Y-%m-%d").to_string(), zone, at })
    }

    fn at_time(at: DateTime<Utc>, zone: Tz) -> Self {
        Self { local: at.with_timezone(&zone).format("%Y-%m-%dT%H:%M").to_string(), zone, at }
    }
}

/// Which todos a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Those that are not done.
    #[default]
    Open,
    /// Those that are done.
    Done,
    /// All of them, open ones first.
    All,
}

impl TodoStatus {
    /// What a query asks `is_done` for; `None`: both.
    pub fn is_done(self) -> Option<bool> {
        match self {
            Self::Open => Some(false),
            Self::Done => Some(true),
            Self::All => None,
        }
    }
}

/// A position between two others: before `next`, after `before` if there is one. `None`: there is no number between them.
pub fn between(before: Option<f64>, next: f64) -> Option<f64> {
    let Some(before) = before else { return Some(next - STEP) };
    let middle = before + (next - before) / 2.0;
    (before < middle && middle < next).then_some(middle)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn due(text: &str, zone: Tz) -> (String, String) {
        let due = Due::parse(text, zone).unwrap();
        (due.local, due.at.to_rfc3339())
    }

    #[test]
    fn a_day_ends_when_the_next_one_begins_in_its_zone() {
        let berlin = chrono_tz::Europe::Berlin;
        for (text, local, at) in [
            ("2026-12-01", "2026-12-01", "2026-12-01T23:00:00+00:00"),
            ("2026-12-01T15:00", "2026-12-01T15:00", "2026-12-01T14:00:00+00:00"),
            ("2026-12-01T15:00:00Z", "2026-12-01T16:00", "2026-12-01T15:00:00+00:00"),
            ("2026-12-01T15:00:00-05:00", "2026-12-01T21:00", "2026-12-01T20:00:00+00:00"),
            // The clocks skip an hour: the first minute after it.
            ("2026-03-29T02:30", "2026-03-29T03:00", "2026-03-29T01:00:00+00:00"),
        ] {
            assert_eq!(due(text, berlin), (local.to_owned(), at.to_owned()), "{text}");
        }
        // Samoa had no 30 December 2011.
        let (_, at) = due("2011-12-29", chrono_tz::Pacific::Apia);
        assert_eq!(at, "2011-12-30T10:00:00+00:00");
        for wrong in ["tomorrow", "", "2026-13-01", "01.12.2026"] {
            assert!(Due::parse(wrong, berlin).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn positions_between_two_are_between_them(before in -1e9..1e9, gap in 0.0..1e6) {
            let next = before + gap;
            if let Some(middle) = between(Some(before), next) {
                prop_assert!(before < middle && middle < next);
            }
            prop_assert!(between(None, next).unwrap() < next);
        }
    }
}
