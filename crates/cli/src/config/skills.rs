//! `jobs/skills.toml`, and the skills that come with the installation: those in the binary, then those of the settings' folders,
//! which replace or add skills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use houston_domain::skill::BundledSkill;
use serde::{Deserialize, Serialize};

use super::layers::Layers;
use super::{ConfigError, Result, error};
use crate::skill_source::{self, SkillSource};

/// The folder of skills.
pub(super) const FOLDER: &str = "skills";

/// The skills in the binary: name and text.
const BUILT_IN: &[(&str, &str)] = &[
    ("decision-brief", include_str!("../../../../jobs/skills/decision-brief/SKILL.md")),
    ("weekly-review", include_str!("../../../../jobs/skills/weekly-review/SKILL.md")),
];

/// `jobs/skills.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillSettings {
    /// Names of skills of the installation that are enabled although they say that they are not.
    pub(crate) bundled: Vec<String>,
}

impl SkillSettings {
    /// Loads the skills of the installation, by name. Those of a later folder replace those of earlier ones.
    ///
    /// # Errors
    /// [`ConfigError`] when a folder has a skill that cannot be read, or `bundled` names one that does not exist.
    pub(super) fn load(&self, folders: &[PathBuf], layers: &Layers) -> Result<Vec<BundledSkill>> {
        let mut skills: BTreeMap<String, BundledSkill> = BTreeMap::new();
        let mut add = |SkillSource { folder, text, files, .. }: SkillSource, path: &Path| {
            let folder = folder.unwrap_or_default();
            let skill = BundledSkill::read(&folder, text, files, self.bundled.contains(&folder));
            let skill = skill.map_err(|error| ConfigError::file(path, format!("{folder}: {error}")))?;
            skills.insert(skill.summary.name.clone(), skill);
            Ok::<_, ConfigError>(())
        };
        for (name, text) in BUILT_IN {
            let (folder, text) = (Some((*name).to_owned()), (*text).to_owned());
            let source = SkillSource { folder, text, ..SkillSource::default() };
            add(source, Path::new(&format!("jobs/{FOLDER}/{name}")))?;
        }
        for folder in folders.iter().map(|folder| folder.join(FOLDER)).filter(|folder| folder.is_dir()) {
            let wrong = |error: anyhow::Error| ConfigError::file(&folder, format!("{error:#}"));
            for source in skill_source::read(&folder).map_err(wrong)? {
                add(source, &folder)?;
            }
        }
        let names: Vec<&str> = skills.keys().map(String::as_str).collect();
        if let Some(unknown) = self.bundled.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(layers.refuse("skills.bundled", error::unknown("skill", unknown, &names)));
        }
        Ok(skills.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    #[test]
    fn skills_of_the_installation_are_enabled_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let enabled = || {
            let skills = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?.skills;
            Ok::<_, String>(
                skills
                    .into_iter()
                    .filter(|skill| skill.summary.enabled)
                    .map(|skill| skill.summary.name)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(enabled().unwrap(), [""; 0], "none costs a run something unless the operator names it");
        std::fs::write(folder.path().join("skills.toml"), "bundled = ['weekly-review']").unwrap();
        assert_eq!(enabled().unwrap(), ["weekly-review"]);
        std::fs::create_dir_all(folder.path().join("skills/tea")).unwrap();
        std::fs::write(folder.path().join("skills/tea/SKILL.md"), "---\ndescription: Tea.\n---\nBoil.")
            .unwrap();
        assert_eq!(enabled().unwrap(), ["tea", "weekly-review"]);
        std::fs::write(folder.path().join("skills.toml"), "bundled = ['weekly-revue']").unwrap();
        let error = enabled().unwrap_err();
        assert!(
            error.contains("skills.bundled") && error.contains("did you mean `weekly-review`?"),
            "{error}"
        );
        std::fs::write(folder.path().join("skills.toml"), "").unwrap();
        std::fs::write(folder.path().join("skills/tea/SKILL.md"), "Boil.").unwrap();
        let error = enabled().unwrap_err();
        assert!(error.contains("tea") && error.contains("front matter"), "{error}");
    }
}
