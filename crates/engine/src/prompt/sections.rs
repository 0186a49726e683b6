//! The sections, each an XML element; texts from outside are escaped, so that nobody can close an element.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use houston_domain::agentable::{AgentType, Reply};
use houston_domain::id::{LearningId, NoteId};

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
    let lines: Vec<String> =
        items.map(|(id, text)| format!("<item id=\"{id}\">{}</item>", escape(text))).collect();
    if lines.is_empty() { String::new() } else { element(name, &lines.join("\n")) }
}

/// Today. By the day, not the minute: it must not break the cache of all that follows it.
#[must_use]
pub fn time(now: DateTime<Utc>) -> String {
    element("time_context", &format!("Today is {} (UTC).", now.format("%A, %Y-%m-%d")))
}
