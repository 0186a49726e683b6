//! The sections, each an XML element; texts from outside are escaped, so that nobody can close an element.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use houston_domain::agentable::{AgentType, Reply};
use houston_domain::id::{CustomInstructionId, LearningId, MemoryId, NoteId};
use houston_store::excerpt::Shortened;
use houston_store::history::{KnownUser, Parent};

/// Text inside an element.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn element(name: &str, content: &str) -> String {
    format!("<{name}>\n{}\n</{name}>\n", content.trim())
}

/// Who the agent is: the same for every agentable of its type.
#[must_use]
pub fn role(agent_type: &AgentType) -> String {
    element("role", &agent_type.prompt.role)
}

/// How it works: the same for every agentable of its type and reply.
#[must_use]
pub fn guidelines(agent_type: &AgentType, reply: Reply) -> String {
    match reply {
        Reply::SendMessage if !agent_type.prompt.guidelines.is_empty() => {
            element("guidelines", &agent_type.prompt.guidelines)
        }
        Reply::Text if agent_type.conversational => element(
            "guidelines",
            "The user reads your answer as you write it.\nWrite in their language. Be brief.",
        ),
        _ => element("guidelines", &agent_type.prompt.guidelines),
    }
}

/// What it is about.
#[must_use]
pub fn aim(kind: &str, title: &str, description: &str) -> String {
    let mut text = format!("<title>{}</title>", escape(title));
    if !description.is_empty() {
        let _ = write!(text, "\n<description>{}</description>", escape(description));
    }
    element(kind, &text)
}

/// What a task works for: nothing of it but what it is about.
#[must_use]
pub fn parent(parent: Option<&Parent>) -> String {
    parent.map(|parent| aim(&parent.kind, &parent.title, &parent.description)).unwrap_or_default()
}

/// Who the user is.
#[must_use]
pub fn profile(user: &KnownUser) -> String {
    let mut text = String::new();
    if !user.name.is_empty() {
        let _ = writeln!(text, "<name>{}</name>", escape(&user.name));
    }
    for (list, entries) in &user.profile {
        text += &element(list.as_str(), &lines(entries, "read_profile shows all"));
    }
    if text.is_empty() { text } else { element("user", &text) }
}

/// Rules the user has for all their agents.
#[must_use]
pub fn custom_instructions(instructions: &Shortened<CustomInstructionId>) -> String {
    if instructions.items.is_empty() {
        return String::new();
    }
    let told = "Rules of your user. Follow them always.\n".to_owned();
    element("custom_instructions", &(told + &lines(instructions, "read_custom_instructions shows all")))
}

/// The newest of what agents remembered of the user.
#[must_use]
pub fn memories(memories: &Shortened<MemoryId>) -> String {
    let mut text = items(memories.items.iter().map(|(id, text)| (id.to_string(), text.as_str())));
    if memories.more {
        text += "\nThere are older ones: manage_memory recalls them.";
    }
    if text.is_empty() { text } else { element("memories", &text) }
}

/// One line for each, and one that says where the others are.
fn lines<Id>(shortened: &Shortened<Id>, others: &str) -> String {
    let mut text: String = shortened.items.iter().map(|(_, text)| format!("- {}\n", escape(text))).collect();
    if shortened.more {
        let _ = writeln!(text, "- … ({others})");
    }
    text
}

/// What was learnt.
#[must_use]
pub fn learnings(learnings: &[(LearningId, String)]) -> String {
    list("learnings", learnings.iter().map(|(id, text)| (id.to_string(), text.as_str())))
}

/// Titles of the notes; a tool reads them.
#[must_use]
pub fn notes(notes: &[(NoteId, String)]) -> String {
    list("notes", notes.iter().map(|(id, title)| (id.to_string(), title.as_str())))
}

fn list<'a>(name: &str, items: impl Iterator<Item = (String, &'a str)>) -> String {
    let lines = self::items(items);
    if lines.is_empty() { lines } else { element(name, &lines) }
}

fn items<'a>(items: impl Iterator<Item = (String, &'a str)>) -> String {
    let lines: Vec<String> =
        items.map(|(id, text)| format!("<item id=\"{id}\">{}</item>", escape(text))).collect();
    lines.join("\n")
}

/// Today. By the day, not the minute: it must not break the cache of all that follows it.
#[must_use]
pub fn time(now: DateTime<Utc>) -> String {
    element("time_context", &format!("Today is {} (UTC).", now.format("%A, %Y-%m-%d")))
}
