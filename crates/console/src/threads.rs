//! Agentables with their threads: what agents work on, as the user sees it.

pub(crate) mod history;
pub(crate) mod list;
mod plan;
pub(crate) mod show;

use chrono::{DateTime, Utc};
use houston_protocol::agentable::AgentableResponse;

use crate::show::{Status, When, cost, line, short, when};
use crate::viewer::Viewer;

/// An agentable in a list.
pub(crate) struct Row {
    pub(crate) status: Status,
    pub(crate) href: String,
    pub(crate) title: String,
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) user_href: String,
    pub(crate) user_short: String,
    pub(crate) unread: String,
    pub(crate) cost: String,
    pub(crate) at: When,
}

impl Row {
    pub(crate) fn new(viewer: &Viewer, of: &AgentableResponse, now: DateTime<Utc>) -> Self {
        let user = of.user_id.to_string();
        Self {
            status: status(of.status.as_deref()),
            href: viewer.path(&format!("/threads/{}/{}", kind_of(&of.id), of.id)),
            title: title(of),
            short: short(&of.id),
            user_href: viewer.path(&format!("/users/{user}")),
            user_short: short(&user),
            unread: of.unread.map(|unread| unread.to_string()).unwrap_or_default(),
            cost: cost(of.cost, of.unpriced_calls),
            at: when(of.created_at, now),
            id: of.id.clone(),
        }
    }
}

fn title(of: &AgentableResponse) -> String {
    if of.title.trim().is_empty() { "Without a title".to_owned() } else { line(&of.title, 120) }
}

/// The kind of an id such as `goal_0190…`.
fn kind_of(id: &str) -> &str {
    id.rsplit_once('_').map_or(id, |(kind, _)| kind)
}

/// Kinds choose their own words; the usual ones have colours.
fn status(name: Option<&str>) -> Status {
    let tone = match name {
        Some("working" | "running") => "busy",
        Some("completed" | "done") => "good",
        Some("failed") => "bad",
        Some("retrying" | "stopped" | "paused") => "warn",
        Some("archived" | "cancelled") => "off",
        Some("needs_approval" | "asking") => "wait",
        _ => "idle",
    };
    Status { text: name.unwrap_or("–").replace('_', " "), tone }
}
