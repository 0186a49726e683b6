//! Sections that hooks of the program add.

use crate::hook::PromptSection;
use crate::prompt::section::{List, Section, Stability};

/// A section in an element of its own. It may differ from run to run.
#[must_use]
pub fn added(section: &PromptSection) -> Section {
    let list = List::fixed(section.text.trim());
    Section::new("added", Stability::Changing, &section.name, vec![list])
}
