//! [`Catalogue`]: servers that work with Houston.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::settings::ServerSettings;

/// `jobs/catalogue.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// By the name under which a server is added.
    pub servers: BTreeMap<String, Entry>,
}

/// A server of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What it is for.
    pub about: String,
    /// The categories of tools it belongs to.
    pub categories: Vec<String>,
    /// What must be done before it can be started, besides setting its variables.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub needs: String,
    /// Its settings, as they are written to `mcp.toml`.
    pub server: ServerSettings,
}

/// The text of the file.
const TEXT: &str = include_str!("../../../jobs/catalogue.toml");

impl Catalogue {
    /// The catalogue of this binary.
    ///
    /// # Errors
    /// What is wrong with the file; a test reads it.
    pub fn built_in() -> Result<Self, toml::de::Error> {
        toml::from_str(TEXT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The categories of the table in `jobs/README.md`.
    const CATEGORIES: [&str; 23] = [
        "tasks",
        "bookmarks",
        "notes",
        "calendar",
        "contacts",
        "custom_data",
        "file_system",
        "pdf",
        "code",
        "git",
        "web",
        "email",
        "image",
        "audio",
        "translation",
        "data_extraction",
        "vector_search",
        "finance",
        "weather",
        "memory",
        "goals",
        "dynamic_tools",
        "utilities",
    ];

    #[test]
    fn each_category_has_a_tool_a_server_or_a_reason() {
        let readme = include_str!("../../../jobs/README.md");
        let catalogue = Catalogue::built_in().unwrap();
        for category in CATEGORIES {
            let row = readme.lines().find(|line| line.starts_with(&format!("| `{category}` |")));
            let row = row.unwrap_or_else(|| panic!("jobs/README.md has no row for `{category}`"));
            for (name, entry) in &catalogue.servers {
                let is_listed = row.split('`').skip(1).step_by(2).any(|word| word == name);
                assert_eq!(
                    is_listed,
                    entry.categories.iter().any(|one| one == category),
                    "{category}: {name}"
                );
            }
            assert!(row.split('|').skip(2).take(2).any(|cell| cell.contains('`')), "{row}");
        }
        let known = |one: &String| CATEGORIES.contains(&one.as_str());
        assert!(catalogue.servers.values().all(|entry| entry.categories.iter().all(known)));
    }

    #[test]
    fn entries_have_settings_that_are_accepted() {
        let catalogue = Catalogue::built_in().unwrap();
        assert!(catalogue.servers.len() >= 20, "only {}", catalogue.servers.len());
        for (name, entry) in &catalogue.servers {
            assert_eq!(entry.server.check(name), Ok(()), "{name}");
            assert!(!entry.about.is_empty() && !entry.categories.is_empty(), "{name}");
            let is_pinned = |arg: &String| {
                arg.contains("==") || arg.rsplit_once('@').is_some_and(|(name, _)| !name.is_empty())
            };
            assert!(entry.server.args.iter().any(is_pinned), "{name}: name the version of the package");
        }
    }
}
