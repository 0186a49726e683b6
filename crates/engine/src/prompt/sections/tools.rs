//! 4: which tools there are, and how to use them. Their definitions go to the model beside the prompt.

use houston_tools::Offer;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::escape;

/// Their names, in the order of their definitions, and what holds for all of them.
#[must_use]
pub fn tools(offer: &Offer) -> Section {
    let names: Vec<&str> = offer.definitions().iter().map(|tool| tool.name.as_str()).collect();
    let lists = if names.is_empty() {
        Vec::new()
    } else {
        let told = format!(
            "You have {} and no other tools.\nFind the tool, check which arguments it needs, then call it. Lists show \
             beginnings; a tool that reads shows the whole.",
            escape(&names.join(", "))
        );
        vec![List::fixed(told)]
    };
    Section::new("tools", Stability::Kind, "tools", lists)
}
