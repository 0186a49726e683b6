//! Section 2: who the user is.

use houston_store::run_context::PromptUser;
use houston_tools::builtin::READ_PROFILE;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::{escape, item};

/// The user's name, and each list of the profile that has entries.
#[must_use]
pub fn profile(user: &PromptUser) -> Section {
    let mut lists = Vec::new();
    if !user.name.is_empty() {
        lists.push(List::fixed(format!("<name>{}</name>", escape(&user.name))));
    }
    lists.extend(user.profile.iter().map(|(list, entries)| List {
        element: Some(list.as_str()),
        items: entries.items.iter().map(|((), text)| item(text)).collect(),
        more: entries.more,
        others: format!("- … ({READ_PROFILE} shows all)"),
        ..List::default()
    }));
    Section::new("profile", Stability::Agentable, "user", lists)
}
