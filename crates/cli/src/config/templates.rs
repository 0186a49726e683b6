//! `jobs/plans/*.json`: templates of plans; the built-in ones, then those of the settings' folders, which replace or add some.

use std::path::{Path, PathBuf};

use houston_domain::plan::{Template, Templates};

use super::folder::{File, files};
use super::{ConfigError, Result};

/// The folder of templates.
pub(super) const FOLDER: &str = "plans";

/// The templates in the binary: name and JSON.
const BUILT_IN: &[(&str, &str)] = &[
    ("compare", include_str!("../../../../jobs/plans/compare.json")),
    ("research", include_str!("../../../../jobs/plans/research.json")),
];

/// Loads all templates. `tools`: the names that steps may call.
///
/// # Errors
/// [`ConfigError`] with the file and JSON pointers, or when a file cannot be read.
pub(super) fn load(folders: &[PathBuf], tools: &[String]) -> Result<Templates> {
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let mut templates = Vec::new();
    for (name, text) in BUILT_IN {
        templates.push(read(Path::new(&format!("jobs/{FOLDER}/{name}.json")), name, text, &tools)?);
    }
    for File { stem, path, text } in files(folders.iter().map(PathBuf::as_path), FOLDER, &[".json"])? {
        templates.push(read(&path, &stem, &text, &tools)?);
    }
    Ok(Templates::new(templates))
}

fn read(path: &Path, name: &str, text: &str, tools: &[&str]) -> Result<Template> {
    Template::parse(text, name, tools).map_err(|problems| {
        ConfigError::file(path, problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    fn names(file: &str, text: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("plans")).unwrap();
        std::fs::write(folder.path().join("plans").join(file), text).unwrap();
        let loaded = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?;
        Ok(loaded.templates.iter().map(|template| template.name.clone()).collect())
    }

    #[test]
    fn templates_of_a_folder_are_added_and_checked() {
        let greet = r#"{"name": "greet", "description": "Greets.", "input": {"type": "object"},
            "document": {"v": 1, "goal": "Greet", "steps": [{"id": "say", "type": "llm", "prompt": "Greet"}]}}"#;
        assert_eq!(names("greet.json", greet).unwrap(), ["compare", "greet", "research"]);
        assert_eq!(names("notes.md", "").unwrap(), ["compare", "research"]);
        let error = names("greet.json", &greet.replace("llm", "lmm")).unwrap_err();
        assert!(error.contains("plans/greet.json: /document/steps/0/type: there is no type"), "{error}");
        let error = names("hello.json", greet).unwrap_err();
        assert!(error.contains("plans/hello.json: /name: must be `hello`"), "{error}");
        let error = names("greet.toml", "").unwrap_err();
        assert!(error.contains("greet.toml") && error.contains("research.json"), "{error}");
    }

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
