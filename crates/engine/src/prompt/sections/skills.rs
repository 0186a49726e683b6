//! Of section 7: which skills there are. It depends on the skills alone, not on messages: see
//! [`disclosure`](houston_domain::skill::disclosure).

use houston_domain::skill::disclosure::{Standing, standing};
use houston_domain::skill::{SkillSummary, USE_SKILL, entry};
use houston_tools::builtin::LIST_SKILLS;

use crate::prompt::section::{List, Section, Stability};

/// Name and purpose of the skills without triggers, and how many others there are. Empty when there are none.
#[must_use]
pub fn skills(skills: &[SkillSummary]) -> Section {
    let Standing { listed, others } = standing(skills);
    let mut lists = Vec::new();
    if !listed.is_empty() {
        lists.push(List {
            head: format!("Instructions for kinds of tasks. Before such a task, read them with {USE_SKILL}:"),
            items: listed.into_iter().map(entry::line).collect(),
            others: format!("There are more: {LIST_SKILLS}."),
            ..List::default()
        });
    }
    if others > 0 {
        let more = if lists.is_empty() { "" } else { " more" };
        let plural = if others == 1 { "" } else { "s" };
        lists.push(List::fixed(format!("[{others}{more} skill{plural} available: {LIST_SKILLS}]")));
    }
    Section::new("capabilities", Stability::Agentable, "skills", lists)
}
