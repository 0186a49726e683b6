//! 5: when the agentable wakes up by itself.

use crate::prompt::section::{List, Section, Stability};
use crate::prompt::xml::escape;

/// Something that happens by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// When, and what for, in a line.
    pub told: String,
}

/// Its schedules, the next first; nothing when there are none.
#[must_use]
pub fn automation(schedules: &[Schedule]) -> Section {
    let list = List {
        head: "What happens without a message:".to_owned(),
        items: schedules.iter().map(|schedule| format!("- {}", escape(&schedule.told))).collect(),
        others: "- …",
        ..List::default()
    };
    let lists = if list.items.is_empty() { Vec::new() } else { vec![list] };
    Section::new("automation", Stability::Agentable, "automation", lists)
}
