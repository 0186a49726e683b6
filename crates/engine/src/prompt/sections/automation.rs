//! 5: when the agentable wakes up by itself.

use crate::prompt::section::{List, Section, Stability};
use crate::prompt::xml::escape;

/// Its check-ins (when, and what for, a line each, the next first); nothing when there are none.
#[must_use]
pub fn automation(check_ins: &[String]) -> Section {
    let list = List {
        head: "What you set to happen without a message:".to_owned(),
        items: check_ins.iter().map(|told| format!("- {}", escape(told))).collect(),
        others: "- …",
        ..List::default()
    };
    let lists = if list.items.is_empty() { Vec::new() } else { vec![list] };
    Section::new("automation", Stability::Agentable, "automation", lists)
}
