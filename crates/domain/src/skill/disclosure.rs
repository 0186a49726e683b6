//! Disclosure: how much of its skills an agent reads. Four tiers, from nothing to whole texts, so that skills which a
//! conversation does not need cost it nothing or a line.
//!
//! | tier | what the agent reads | when |
//! |---|---|---|
//! | 0 | nothing | there are no skills |
//! | 1 | that there are so many skills, in the prompt | they have triggers, and no message has matched |
//! | 2 | name and purpose of each | in the prompt, of skills without triggers; after a message that asks what there is |
//! | 3 | the text of at most three, after the message | their triggers match, or the message names them |
//!
//! What the prompt has ([`standing`]) depends on the skills alone and not on messages, so that the caches of providers hold.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::trigger::{Match, Message, Triggers};

/// Skills whose texts one message discloses.
pub const MAX_DISCLOSED: usize = 3;

names! {
    /// Where a skill comes from. Of two with one name the later source counts.
    #[derive(Default, PartialOrd, Ord, Hash)]
    pub enum SkillSource {
        /// It comes with the installation.
        Bundled = "bundled",
        /// It is a tenant's, for all its users.
        #[default]
        Tenant = "tenant",
        /// It is one user's.
        User = "user",
    }
}

/// What a run reads of every skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSummary {
    /// The name.
    pub name: String,
    /// Its description in one line.
    pub brief: String,
    /// Which messages call for it.
    #[serde(default, skip_serializing_if = "Triggers::is_empty")]
    pub triggers: Triggers,
    /// Whether agents have it. One that is not enabled hides those of the same name from earlier sources.
    pub enabled: bool,
    /// Where it comes from; its row says that.
    #[serde(skip)]
    pub source: SkillSource,
}

/// The skills of a run, by name: of those with one name that of the latest source, if it is enabled.
pub fn available<'s>(skills: impl IntoIterator<Item = &'s SkillSummary>) -> Vec<SkillSummary> {
    let mut skills: Vec<&SkillSummary> = skills.into_iter().collect();
    skills.sort_by(|a, b| a.name.cmp(&b.name).then(b.source.cmp(&a.source)));
    skills.dedup_by(|later, first| later.name == first.name);
    skills.into_iter().filter(|skill| skill.enabled).cloned().collect()
}

/// What the prompt says of skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing<'s> {
    /// Those without triggers, which only the agent itself can choose (tier 2).
    pub listed: Vec<&'s SkillSummary>,
    /// How many others there are (tier 1).
    pub others: usize,
}

/// What the prompt says of these skills.
pub fn standing(skills: &[SkillSummary]) -> Standing<'_> {
    let listed: Vec<&SkillSummary> = skills.iter().filter(|skill| skill.triggers.is_empty()).collect();
    Standing { others: skills.len() - listed.len(), listed }
}

/// What a message adds to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disclosure {
    /// Nothing.
    Nothing,
    /// The names and purposes of all skills.
    List,
    /// The texts of these skills: indices, the best first.
    Texts(Vec<usize>),
}

/// Phrases that ask which skills there are.
const ASKING: [&str; 9] = [
    "list skills",
    "list your skills",
    "which skills",
    "what skills",
    "your skills",
    "available skills",
    "show skills",
    "what can you do",
    "was kannst du",
];

/// What a message discloses of these skills. `is_read` says of a name whether the session has read that skill: each is read once.
pub fn disclose(skills: &[SkillSummary], message: &str, is_read: impl Fn(&str) -> bool) -> Disclosure {
    if skills.is_empty() || message.trim().is_empty() {
        return Disclosure::Nothing;
    }
    let mut message = Message::new(message);
    let mut found: Vec<(Match, usize)> = Vec::new();
    for (nth, skill) in skills.iter().enumerate().filter(|(_, skill)| !is_read(&skill.name)) {
        found.extend(message.matches(&skill.name, &skill.triggers).map(|matched| (matched, nth)));
    }
    // Of equal matches the user's own come first, then the order of names.
    found.sort_by_key(|(matched, nth)| (Reverse(*matched), Reverse(skills[*nth].source), *nth));
    found.truncate(MAX_DISCLOSED);
    if !found.is_empty() {
        return Disclosure::Texts(found.into_iter().map(|(_, nth)| nth).collect());
    }
    if ASKING.iter().any(|phrase| message.has(phrase)) { Disclosure::List } else { Disclosure::Nothing }
}

#[cfg(test)]
mod tests;
