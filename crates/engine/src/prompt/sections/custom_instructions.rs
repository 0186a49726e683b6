//! Section 3: rules of the user for all agents.

use houston_domain::id::CustomInstructionId;
use houston_store::excerpt::Shortened;
use houston_tools::builtin::READ_CUSTOM_INSTRUCTIONS;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::item;

/// The user's custom instructions, the oldest first.
#[must_use]
pub fn custom_instructions(instructions: &Shortened<CustomInstructionId>) -> Section {
    let list = List {
        head: "Rules of your user. Follow them always.".to_owned(),
        items: instructions.items.iter().map(|(_, text)| item(text)).collect(),
        more: instructions.more,
        others: format!("- … ({READ_CUSTOM_INSTRUCTIONS} shows all)"),
        ..List::default()
    };
    let lists = if list.items.is_empty() { Vec::new() } else { vec![list] };
    Section::new("custom_instructions", Stability::Agentable, "custom_instructions", lists)
}
