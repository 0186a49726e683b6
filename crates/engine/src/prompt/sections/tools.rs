//! Section 4: which tools there are, and how to use them. Their definitions are sent separately.

use std::sync::Arc;

use houston_domain::guard::Layer;
use houston_tools::Offer;
use houston_tools::builtin::SEARCH_TOOLS;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::escape;

/// Groups of tools that are named, the largest.
const MAX_GROUPS: usize = 20;

/// The names of the tools whose definitions are sent, in their order, and how to use them; where others must be searched, which kinds
/// of them there are.
#[must_use]
pub fn tools(offer: &Offer, guards: &[Arc<Layer>]) -> Section {
    let names: Vec<&str> = offer.definitions().iter().map(|tool| tool.name.as_str()).collect();
    let lists = if names.is_empty() {
        Vec::new()
    } else {
        let others = others(offer, guards);
        let text = format!(
            "You have {}{others}.\nFind the tool, check which arguments it needs, then call it. Lists show \
             beginnings; a tool that reads shows the whole.",
            escape(&names.join(", "))
        );
        vec![List::fixed(text)]
    };
    Section::new("tools", Stability::Kind, "tools", lists)
}

/// What there is besides the tools whose definitions are sent.
fn others(offer: &Offer, guards: &[Arc<Layer>]) -> String {
    if !offer.is_searched() {
        return " and no other tools".to_owned();
    }
    let groups = offer.groups(guards);
    let count: usize = groups.values().sum();
    let mut groups: Vec<(String, usize)> = groups.into_iter().collect();
    groups.sort_by(|(name_a, a), (name_b, b)| b.cmp(a).then(name_a.cmp(name_b)));
    let more = if groups.len() > MAX_GROUPS { ", …" } else { "" };
    let named = groups.into_iter().take(MAX_GROUPS).map(|(name, count)| format!("{name} {count}"));
    let named = escape(&named.collect::<Vec<_>>().join(", "));
    format!(
        ". {SEARCH_TOOLS} finds {count} tools, these among them ({named}{more}): search before you say that you cannot do something"
    )
}
