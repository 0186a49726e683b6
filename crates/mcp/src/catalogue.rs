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
