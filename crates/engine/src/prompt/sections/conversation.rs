//! Section 10: earlier sessions and stored knowledge. Items that tools find most easily are left out first.

use houston_domain::agentable::AgentType;
use houston_domain::id::AgentableId;
use houston_domain::run::RunStatus;
use houston_store::reach::{COUNTED, PromptConversation, PromptConversations};
use houston_store::run_context::{PromptSession, RunContext};
use houston_tools::builtin::{
    LIST_CONVERSATIONS, LIST_LEARNINGS, LIST_NOTES, MANAGE_MEMORY, SEARCH_AGENT_HISTORY,
};
use houston_tools::untrusted::marked;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::{attribute, escape};

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

/// Memories, which other agents of the user write as well, titles of notes, and the user's other conversations: short, and
/// often changed.
#[must_use]
pub fn knowledge(context: &RunContext, about_user: bool, reached: &[AgentType]) -> Section {
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
        conversations(&context.conversations, reached),
    ];
    section(Stability::Changing, lists)
}

/// The newest conversations of the user that are not archived, each with its status and title, and how many there are.
fn conversations(conversations: &PromptConversations, reached: &[AgentType]) -> Option<List> {
    let PromptConversations { newest, open, archived } = conversations;
    let items = newest.iter().map(|PromptConversation { id, kind, title, status, run, untrusted }| {
        let id = AgentableId(*id).public_id(kind);
        let run = run.as_deref().and_then(RunStatus::from_name);
        let status =
            reached.iter().find(|of| of.kind == *kind).and_then(|of| of.status(status.as_deref(), run));
        let status = status.map(|status| format!(" status=\"{}\"", attribute(&status))).unwrap_or_default();
        let title = match (title.as_str(), untrusted) {
            ("", _) => "(no title yet)".to_owned(),
            (title, true) => marked(&id, &escape(title)),
            (title, false) => escape(title),
        };
        format!("<item id=\"{id}\"{status}>{title}</item>")
    });
    let all = if *open >= COUNTED { format!("{COUNTED} or more") } else { open.to_string() };
    let more = usize::try_from(*open).is_ok_and(|open| open > newest.len()) || *archived > 0;
    list(
        "conversations",
        items,
        more,
        format!("The newest of {all}, and {archived} are archived: {LIST_CONVERSATIONS} shows all."),
    )
}

fn section<const N: usize>(stability: Stability, lists: [Option<List>; N]) -> Section {
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
