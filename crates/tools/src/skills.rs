//! [`Skills`]: the skills that a run has.

use std::collections::BTreeSet;
use std::sync::Arc;

use houston_domain::skill::{BundledSkill, SkillSource, SkillSummary, disclosure};
use houston_domain::tool_call::ToolErrorCode;

use crate::input::{Refusal, failed};

/// The skills that a run has, and those of them that its session has read. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Skills {
    available: Arc<[SkillSummary]>,
    bundled: Arc<[BundledSkill]>,
    read: BTreeSet<String>,
}

impl Skills {
    /// The skills of a run: those that come with the installation, and the stored ones of its tenant and user. `None`: there
    /// are none.
    pub fn of(bundled: &Arc<[BundledSkill]>, stored: &[SkillSummary]) -> Option<Self> {
        if bundled.is_empty() && stored.is_empty() {
            return None;
        }
        let all = bundled.iter().map(|skill| &skill.summary).chain(stored);
        let available: Arc<[SkillSummary]> = disclosure::available(all).into();
        let some = !available.is_empty();
        some.then(|| Self { available, bundled: Arc::clone(bundled), read: BTreeSet::new() })
    }

    /// The same skills, of which the session has read these.
    pub fn having_read(&self, read: BTreeSet<String>) -> Self {
        Self { read, ..self.clone() }
    }

    /// The skills, by name.
    pub fn available(&self) -> &[SkillSummary] {
        &self.available
    }

    /// Whether the session has read the skill.
    pub(crate) fn is_read(&self, name: &str) -> bool {
        self.read.contains(name)
    }

    /// The text and the files of a skill that comes with the installation.
    pub fn bundled(&self, skill: &SkillSummary) -> Option<&BundledSkill> {
        let is_it = |bundled: &&BundledSkill| bundled.summary.name == skill.name;
        self.bundled.iter().find(is_it).filter(|_| skill.source == SkillSource::Bundled)
    }

    /// The skill with this name.
    ///
    /// # Errors
    /// What the model reads: there is none, and which there are.
    pub(crate) fn find(&self, name: &str) -> Result<&SkillSummary, Refusal> {
        let name = name.trim().trim_start_matches('/');
        self.available.iter().find(|skill| skill.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.available.iter().map(|skill| skill.name.as_str()).collect();
            not_found(format!("there is no skill `{name}`; there are: {}", names.join(", ")))
        })
    }
}

pub(crate) fn not_found(text: String) -> Refusal {
    failed(ToolErrorCode::NotFound, text)
}
