//! Section 8: how far the agent goes without asking.

use houston_domain::autonomy::Autonomy;

use crate::prompt::section::{List, Section, Stability};

/// The level's name and rule.
#[must_use]
pub fn autonomy(level: Autonomy) -> Section {
    let list = List::fixed(format!("Level: {}. {}", level.as_str(), level.rule()));
    Section::new("autonomy", Stability::Kind, "autonomy", vec![list])
}
