//! `jobs/tables.toml`: custom tables that are created by name.

use houston_domain::custom_table::{TableLimits, TablePresets, texts};

use super::ConfigError;
use super::layers::Layers;

/// # Errors
/// [`ConfigError::Setting`] when a preset could not be created.
pub(super) fn check(
    presets: &TablePresets,
    limits: &TableLimits,
    layers: &Layers,
) -> Result<(), ConfigError> {
    presets.check(limits).map_err(|(name, faults)| layers.refuse(format!("tables.{name}"), texts(&faults)))
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    fn load_with(text: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tables.toml"), text).unwrap();
        let loaded = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?;
        Ok(loaded.settings.tables.0.into_keys().collect())
    }

    #[test]
    fn presets_of_a_folder_are_added_and_checked() {
        let cars = "[cars]\ndescription = \"Cars\"\nfields = [{ name = \"plate\", type = \"text\" }]";
        assert_eq!(load_with(cars).unwrap(), ["bookmarks", "cars", "contacts", "expenses"]);
        let error = load_with(&cars.replace("\"plate\"", "\"Plate\"")).unwrap_err();
        assert!(error.contains("tables.cars") && error.contains("such as `plate`"), "{error}");
        let error = load_with(&cars.replace("\"text\"", "\"txt\"")).unwrap_err();
        assert!(error.contains("txt"), "{error}");
    }
}
