//! Section 4: which tools there are, and how to use them. Their definitions are sent separately.

use houston_tools::Offer;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::escape;

/// The names of the offered tools, in the order of their definitions, and how to use them.
#[must_use]
pub fn tools(offer: &Offer) -> Section {
    let names: Vec<&str> = offer.definitions().iter().map(|tool| tool.name.as_str()).collect();
    let lists = if names.is_empty() {
        Vec::new()
    } else {
        let text = format!(
            "You have {} and no other tools.\nFind the tool, check which arguments it needs, then call it. Lists show \
             beginnings; a tool that reads shows the whole.",
            escape(&names.join(", "))
        );
        vec![List::fixed(text)]
    };
    Section::new("tools", Stability::Kind, "tools", lists)
}
