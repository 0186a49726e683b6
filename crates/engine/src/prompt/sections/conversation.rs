//! Section 10: earlier sessions and stored knowledge. Items that tools find most easily are left out first.

use houston_store::run_context::{PromptSession, RunContext};
use houston_tools::builtin::{LIST_LEARNINGS, LIST_NOTES, MANAGE_MEMORY, SEARCH_AGENT_HISTORY};

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::escape;

/// Summaries of the latest sessions, the newest first, and learnings: long, and rarely changed.
#[must_use]
pub fn earlier(context: &RunContext, archives: bool) -> Section {
    let sessions = context.sessions.iter().filter(|_| archives);
    let sessions = sessions.map(|PromptSession { id, day, summary, .. }| {
        format!("<session id=\"{id}\" day=\"{day}\">{}</session>", escape(summary))
    });
    let learnings = context.learnings.iter().map(|(id, text)| item(id, text));
    let lists = [
        list(
            "sessions",
            sessions,
            archives,
            format!("Earlier ones, and what was said: {SEARCH_AGENT_HISTORY}."),
        ),
        list("learnings", learnings, false, format!("There are more: {LIST_LEARNINGS} shows them.")),
    ];
    section(Stability::Session, lists)
}

/// Memories, which other agents of the user write as well, and titles of notes: short, and often changed.
#[must_use]
pub fn knowledge(context: &RunContext, about_user: bool) -> Section {
    let memories = about_user.then_some(&context.user.memories);
    let lists = [
        list(
            "memories",
            memories.into_iter().flat_map(|memories| &memories.items).map(|(id, text)| item(id, text)),
            memories.is_some_and(|memories| memories.more),
            format!("There are older ones: {MANAGE_MEMORY} recalls them."),
        ),
        list(
            "notes",
            context.notes.iter().map(|(id, title)| item(id, title)),
            false,
            format!("There are more: {LIST_NOTES} shows them."),
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
    others: String,
) -> Option<List> {
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then_some(List { element: Some(element), items, more, others, ..List::default() })
}
