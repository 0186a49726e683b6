//! 10: what came before this conversation, and what was kept of it. What a tool finds soonest is left out first.

use houston_store::history::{KnownSession, RunContext};

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::escape;

/// Summaries of the latest sessions, the newest first, and learnings: they are long and seldom another.
#[must_use]
pub fn earlier(context: &RunContext, archives: bool) -> Section {
    let sessions = context.sessions.iter().filter(|_| archives);
    let sessions = sessions.map(|KnownSession { id, day, summary }| {
        format!("<session id=\"{id}\" day=\"{day}\">{}</session>", escape(summary))
    });
    let learnings = context.learnings.iter().map(|(id, text)| item(id, text));
    let lists = [
        list("sessions", sessions, archives, "Earlier ones, and what was said: search_agent_history."),
        list("learnings", learnings, false, "There are more: list_learnings shows them."),
    ];
    section(Stability::Session, lists)
}

/// Memories, which other agents of the user write too, and titles of notes: they are short and often others.
#[must_use]
pub fn kept(context: &RunContext, about_user: bool) -> Section {
    let memories = about_user.then_some(&context.user.memories);
    let lists = [
        list(
            "memories",
            memories.into_iter().flat_map(|memories| &memories.items).map(|(id, text)| item(id, text)),
            memories.is_some_and(|memories| memories.more),
            "There are older ones: manage_memory recalls them.",
        ),
        list(
            "notes",
            context.notes.iter().map(|(id, title)| item(id, title)),
            false,
            "There are more: list_notes shows them.",
        ),
    ];
    section(Stability::Changing, lists)
}

fn section(stability: Stability, lists: [Option<List>; 2]) -> Section {
    Section::new("conversation", stability, "conversation", lists.into_iter().flatten().collect())
}

fn item(id: &dyn std::fmt::Display, text: &str) -> String {
    format!("<item id=\"{id}\">{}</item>", escape(text))
}

fn list(
    element: &'static str,
    items: impl Iterator<Item = String>,
    more: bool,
    others: &'static str,
) -> Option<List> {
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then_some(List { element: Some(element), items, more, others, ..List::default() })
}
