//! Skills of tenants and users.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A skill to create or replace.
///
/// ```json
/// {"text": "---\nname: tea\ndescription: Makes tea.\n---\nBoil water.", "files": {"references/leaves.md": "Green: 80 °C"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SkillRequest {
    /// SKILL.md: front matter in YAML with a description, then Markdown. At most 256 KiB.
    pub text: String,
    /// Texts of its files by path, each in `scripts/`, `references/` or `assets/`: at most 50, of 128 KiB each and 512 KiB
    /// together. They replace those there are.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Whether agents have it. By default as its front matter says (`default_enabled`), else true. One that is not enabled
    /// hides the skill of the same name that the tenant or the installation has.
    pub enabled: Option<bool>,
}

/// A skill of a list.
///
/// ```json
/// {"name": "tea", "brief": "Makes tea.", "source": "tenant", "enabled": true, "files": 1,
///  "created_at": "2026-11-25T09:00:00.000Z", "updated_at": "2026-11-25T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillEntryResponse {
    pub name: String,
    /// The description in one line.
    pub brief: String,
    /// `tenant` or `user`.
    pub source: String,
    pub enabled: bool,
    /// How many files it has.
    pub files: u64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A skill with its texts.
///
/// ```json
/// {"name": "tea", "description": "Makes tea.", "brief": "Makes tea.", "source": "tenant", "enabled": true, "license": null,
///  "compatibility": null, "version": null, "metadata": {}, "allowed_tools": [],
///  "triggers": {"keywords": ["tea"], "verbs": [], "patterns": []}, "warnings": [], "text": "---\nname: tea\n…",
///  "files": {"references/leaves.md": "Green: 80 °C"}, "created_at": "2026-11-25T09:00:00.000Z",
///  "updated_at": "2026-11-25T09:00:00.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillResponse {
    pub name: String,
    pub description: String,
    /// The description in one line.
    pub brief: String,
    /// `tenant` or `user`.
    pub source: String,
    pub enabled: bool,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    pub version: Option<String>,
    pub metadata: BTreeMap<String, String>,
    /// The tools that it says it uses. This grants nothing.
    pub allowed_tools: Vec<String>,
    pub triggers: SkillTriggers,
    /// What was mended or left out when it was read, one sentence each.
    pub warnings: Vec<String>,
    /// SKILL.md as it was given.
    pub text: String,
    /// Texts of its files by path.
    pub files: BTreeMap<String, String>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// Which messages call for a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillTriggers {
    /// Words or phrases that a message contains.
    pub keywords: Vec<String>,
    /// Words for what is to be done.
    pub verbs: Vec<String>,
    /// Regular expressions.
    pub patterns: Vec<String>,
}
