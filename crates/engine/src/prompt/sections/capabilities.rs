//! Section 7: what its tools enable the agent to do.

use std::collections::BTreeSet;

use houston_domain::capability::Capability;
use houston_tools::Offer;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::escape;

/// The capabilities of the offered tools; tools without one are listed by name.
#[must_use]
pub fn capabilities(offer: &Offer) -> Section {
    let known: BTreeSet<Capability> = offer.tools().iter().filter_map(|tool| tool.capability()).collect();
    let unknown = offer.tools().iter().filter(|tool| tool.capability().is_none());
    let unknown: Vec<&str> = unknown.map(|tool| tool.definition().name.as_str()).collect();
    let mut lines: Vec<String> = known.into_iter().map(|known| format!("- {}", known.phrase())).collect();
    // Tools that are searched are too many to be named.
    if !unknown.is_empty() && !offer.is_searched() {
        lines.push(format!("- what else your tools do: {}", escape(&unknown.join(", "))));
    }
    let lists = if lines.is_empty() {
        Vec::new()
    } else {
        vec![List::fixed(format!("You can\n{}", lines.join("\n")))]
    };
    Section::new("capabilities", Stability::Kind, "capabilities", lists)
}
