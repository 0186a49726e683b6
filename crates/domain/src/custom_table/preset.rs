//! Presets: tables that are created by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Fault, Field, Fields, TableLimits, check_name};

/// A table that can be created by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TablePreset {
    /// What it is for.
    pub description: String,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// `jobs/tables.toml`: the presets, by the name that their tables get.
///
/// ```toml
/// [bookmarks]
/// description = "Web pages worth keeping"
/// fields = [{ name = "url", type = "text", required = true }]
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TablePresets(pub BTreeMap<String, TablePreset>);

/// There is no such preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{name}`; there are: {}", .there_are.join(", "))]
pub struct UnknownPreset {
    /// The given name, shortened.
    pub name: String,
    /// The names there are.
    pub there_are: Vec<String>,
}

impl TablePresets {
    /// The preset with this name.
    ///
    /// # Errors
    /// [`UnknownPreset`] with the names there are.
    pub fn named(&self, name: &str) -> Result<&TablePreset, UnknownPreset> {
        self.0.get(name).ok_or_else(|| UnknownPreset {
            name: name.chars().take(60).collect(),
            there_are: self.0.keys().cloned().collect(),
        })
    }

    /// Checks each preset as a new table is checked.
    ///
    /// # Errors
    /// The name of the first preset that is wrong, and its faults.
    pub fn check(&self, limits: &TableLimits) -> Result<(), (String, Vec<Fault>)> {
        for (name, preset) in &self.0 {
            let named = check_name(name).map_err(|reason| vec![Fault::of("", reason)]);
            let checked = named.and_then(|()| Fields::new(preset.fields.clone(), limits));
            checked.map_err(|faults| (name.clone(), faults))?;
        }
        Ok(())
    }
}
