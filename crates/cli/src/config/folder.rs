//! Checks the names of files in a folder of settings.
//!
//! A misspelt file name would silently have no effect. So a file that looks like settings but is never read is an
//! error, like an unknown key in a file.

use std::path::{Path, PathBuf};

use super::error::like;
use super::outside::ENDPOINTS;
use super::skills::FOLDER as SKILLS;
use super::templates::FOLDER as PLANS;
use super::{ConfigError, FILES, Result};

/// The folder of agent types.
pub(super) const AGENTS: &str = "agents";
/// Extensions of files that are allowed beside the settings: notes.
const NOTES: [&str; 2] = ["md", "txt"];

/// The user's folder if it exists.
pub(crate) fn of_user(environment: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    user_path(environment).filter(|folder| folder.exists())
}

/// The path of the user's folder: `$XDG_CONFIG_HOME/houston`, else `~/.config/houston`. `None` without a home.
pub(crate) fn user_path(environment: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let configured = environment("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(environment("HOME")?).join(".config"));
    Some(configured.or_else(home)?.join("houston"))
}

/// Checks the names of the files in a folder, not their contents.
///
/// # Errors
/// [`ConfigError`] when the folder cannot be read, or has a file or folder that looks like settings but is never read.
pub(super) fn check(folder: &Path) -> Result<()> {
    let files: Vec<String> = FILES.iter().map(|(name, _)| format!("{name}.toml")).collect();
    let folders = [AGENTS, ENDPOINTS, SKILLS, PLANS];
    let others = folders.into_iter().chain([houston_mcp::pins::FILE]);
    let allowed: Vec<&str> = files.iter().map(String::as_str).chain(others).collect();
    for (path, name) in entries(folder)? {
        let is_allowed =
            allowed.contains(&name.as_str()) && path.is_dir() == folders.contains(&name.as_str());
        let like = if is_note(&name) { String::new() } else { like(&name, &allowed) };
        let is_toml = |(_, name): &(PathBuf, String)| name.ends_with(".toml");
        let holds_toml = || entries(&path).is_ok_and(|within| within.iter().any(is_toml));
        let looks_like_settings = name.ends_with(".toml") || path.is_dir() && holds_toml();
        if !is_allowed && (looks_like_settings || !like.is_empty()) {
            return Err(ConfigError::unknown_file(&path, &allowed.join(", "), &like));
        }
    }
    only(&folder.join(AGENTS), &[".toml"], "files like goal.toml, one for each kind")?;
    only(&folder.join(PLANS), &[".json"], "files like research.json, one for each template")?;
    let allowed = "files like crm.toml, or OpenAPI documents like crm.json";
    only(&folder.join(ENDPOINTS), &[".toml", ".json"], allowed)
}

/// Checks that a folder, if it exists, has notes and files with these endings only.
fn only(folder: &Path, endings: &[&str], allowed: &str) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for (path, name) in entries(folder)? {
        let is_read = endings.iter().any(|ending| name.ends_with(ending)) && path.is_file();
        if !is_read && !is_note(&name) {
            return Err(ConfigError::unknown_file(&path, allowed, ""));
        }
    }
    Ok(())
}

/// A file of settings beside those that are merged.
pub(super) struct File {
    /// Its name without the ending.
    pub(super) stem: String,
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The files with these endings in the folder `within` of each of `folders`, without hidden ones.
pub(super) fn files<'f>(
    folders: impl IntoIterator<Item = &'f Path>,
    within: &str,
    endings: &[&str],
) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for folder in folders.into_iter().map(|folder| folder.join(within)).filter(|folder| folder.is_dir()) {
        for (path, name) in entries(&folder)? {
            let Some(stem) = endings.iter().find_map(|ending| name.strip_suffix(ending)) else { continue };
            match std::fs::read_to_string(&path) {
                Ok(text) => files.push(File { stem: stem.to_owned(), path, text }),
                Err(source) => return Err(ConfigError::folder(&path, source)),
            }
        }
    }
    Ok(files)
}

/// Paths and names of the entries, sorted, without hidden ones.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let fail = |source| ConfigError::folder(folder, source);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            entries.push((entry.path(), name));
        }
    }
    entries.sort();
    Ok(entries)
}

fn is_note(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| NOTES.contains(&extension))
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    use super::*;

    fn refused(make: impl FnOnce(&Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        load(Some(folder.path()), &tools()).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn missing_folder_is_refused() {
        let error = refused(|folder| std::fs::remove_dir(folder).unwrap());
        assert!(error.contains("--jobs") && error.contains("No such file"), "{error}");
        let error = refused(|folder| {
            std::fs::remove_dir(folder).unwrap();
            std::fs::write(folder, "").unwrap();
        });
        assert!(error.contains("--jobs") && error.contains("Not a directory"), "{error}");
    }

    #[test]
    fn misspelt_file_or_folder_is_refused() {
        let file = |name: &'static str| move |folder: &Path| std::fs::write(folder.join(name), "").unwrap();
        let error = refused(file("orchestratr.toml"));
        assert!(
            error.contains("orchestratr.toml") && error.contains("did you mean `orchestrator.toml`?"),
            "{error}"
        );
        assert!(error.contains("health_monitor.toml"), "{error}");
        assert!(refused(file("server.yaml")).contains("did you mean `server.toml`?"));
        assert!(refused(file("zebra.toml")).contains("zebra.toml"));
        let error = refused(|folder| std::fs::create_dir(folder.join("agent")).unwrap());
        assert!(error.contains("did you mean `agents`?"), "{error}");
        let error = refused(|folder| {
            std::fs::create_dir(folder.join("agents")).unwrap();
            std::fs::write(folder.join("agents/goal.tml"), "").unwrap();
        });
        assert!(error.contains("goal.tml") && error.contains("one for each kind"), "{error}");
    }

    #[test]
    fn other_files_are_allowed_beside_settings() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("agents")).unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        for name in ["README.md", "agents/README.md", ".hidden.toml", "ledger", "server.md"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert!(load(Some(folder.path()), &tools()).is_ok());
    }

    #[test]
    fn project_overrides_user_overrides_built_in() {
        let (user, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |folder: &Path, text: &str| std::fs::write(folder.join("server.toml"), text).unwrap();
        write(user.path(), "heartbeat_ms = 5\nretry_ms = 700");
        write(project.path(), "heartbeat_ms = 6");
        let loaded = load([user.path(), project.path()], &tools()).unwrap();
        let entries = loaded.entries();
        let origin = |key: &str| {
            entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| (entry.value.as_str(), entry.origin.as_str()))
                .unwrap()
        };
        let from = |folder: &Path| folder.join("server.toml").display().to_string();
        assert_eq!(origin("server.heartbeat_ms"), ("6", from(project.path()).as_str()));
        assert_eq!(origin("server.retry_ms"), ("700", from(user.path()).as_str()));
        assert_eq!(origin("server.address").1, "jobs/server.toml");
    }

    #[test]
    fn user_folder_follows_xdg() {
        let home = tempfile::tempdir().unwrap();
        let set = |name: &str| (name == "HOME").then(|| home.path().display().to_string());
        assert_eq!(of_user(set), None);
        let folder = home.path().join(".config/houston");
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(of_user(set), Some(folder));
        let xdg = home.path().join("xdg");
        std::fs::create_dir_all(xdg.join("houston")).unwrap();
        let set = |name: &str| {
            Some(if name == "HOME" { home.path().to_owned() } else { xdg.clone() }.display().to_string())
        };
        assert_eq!(of_user(set), Some(xdg.join("houston")));
    }
}
