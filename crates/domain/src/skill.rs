//! Skills: instructions for a kind of task, which an agent reads when a message calls for them. A skill is a text in the format
//! SKILL.md of agentskills.io, front matter in YAML and then Markdown, with a few files beside it.
//!
//! | part | decides |
//! |---|---|
//! | [`document`] | what a SKILL.md says |
//! | [`mod@file`] | which files may lie beside it |
//! | [`trigger`] | whether a message calls for a skill |
//! | [`disclosure`] | which skills there are for a run, and how much of them its agent reads |
//! | [`entry`] | the text that an agent reads, and which skills its session has read |

pub mod disclosure;
pub mod document;
pub mod entry;
pub mod file;
pub mod trigger;

use std::collections::BTreeMap;

pub use self::disclosure::{SkillSource, SkillSummary};
pub use self::document::SkillDocument;

/// The tool that reads a skill.
pub const USE_SKILL: &str = "use_skill";

settings! {
    /// How many skills there may be: `[skills]` of `jobs/knowledge.toml`.
    pub struct SkillLimits {
        /// Skills of a tenant, for all its users.
        pub max_of_tenant: u32 = 100;
        /// Skills of one user.
        pub max_of_user: u32 = 50;
    }
}

/// A skill that comes with the installation, in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledSkill {
    /// Its name and triggers.
    pub summary: SkillSummary,
    /// Its text as written.
    pub text: String,
    /// Texts of the files beside it, by path.
    pub files: BTreeMap<String, String>,
}

impl BundledSkill {
    /// A skill from its text and its files. `is_named`: whether the settings name it, so that it is enabled whatever it says. The
    /// error says why the text is no skill, or a file is not allowed.
    pub fn read(
        folder: &str,
        text: String,
        files: BTreeMap<String, String>,
        is_named: bool,
    ) -> Result<Self, String> {
        let document = SkillDocument::read(&text, Some(folder))?;
        file::check(&files)?;
        let enabled = is_named || document.default_enabled;
        let summary = SkillSummary { source: SkillSource::Bundled, ..document.summary(enabled) };
        Ok(Self { summary, text, files })
    }
}

/// Whether `name` may name a skill: 1 to 64 lower-case letters, digits and hyphens, none at an end and no two in a row.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= document::MAX_NAME_BYTES
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}
