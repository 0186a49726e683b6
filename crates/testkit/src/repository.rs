//! Paths of the repository, and cargo commands in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The root of the repository, found at run time: above `CARGO_MANIFEST_DIR`, the current folder, or the program. The
/// current folder if none of these is in a clone.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let here = std::env::current_dir().ok();
        let program = std::env::current_exe().ok();
        let starts = [package, here.clone(), program];
        let found = starts.into_iter().flatten().find_map(|start| root_above(&start));
        found.or(here).unwrap_or_default()
    })
}

/// The nearest folder at or above `start` that is the root of a clone.
fn root_above(start: &Path) -> Option<PathBuf> {
    let is_root = |folder: &&Path| folder.join("crates/xtask/Cargo.toml").is_file();
    start.ancestors().find(is_root).map(Path::to_owned)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// The folder of programs installed for this repository: `target/tools`.
pub fn tools() -> PathBuf {
    target().join("tools")
}

/// The folder of recorded exchanges with providers, outside the repository. It may not exist.
pub fn recordings() -> PathBuf {
    root().join("../shared/fixtures/llm")
}

/// Number of recorded exchanges: files `<provider>/<name>.json`.
pub fn recorded_exchanges() -> usize {
    let folders = std::fs::read_dir(recordings()).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "json")).count()
}

/// The cargo that runs this program, else `cargo` on `PATH`.
pub fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// A `cargo` command in the root of the repository.
pub fn cargo() -> Command {
    command_like_cargo(Path::new(&cargo_program()))
}

/// `cargo build` of `targets` with the features that tests are built with, so that crates are not built twice.
pub fn cargo_build_like_tests(targets: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(["build", "--quiet", "--workspace"]).args(targets);
    cargo
}

/// A command that builds like cargo, in the root of the repository. `SQLX_OFFLINE` makes sqlx check queries against the
/// prepared ones, so that a build needs no database.
pub fn command_like_cargo(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env("SQLX_OFFLINE", "true").env_remove("DATABASE_URL");
    remove_package_variables(&mut command);
    command
}

/// Removes the variables that `cargo run` sets for this program's package. Build scripts depend on them: an inner cargo
/// that sees them would rebuild what the outer one has built, and vice versa.
pub fn remove_package_variables(command: &mut Command) {
    const PREFIXES: [&str; 5] =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_PACKAGE"];
    for (name, _) in std::env::vars_os() {
        if PREFIXES.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_from_any_folder_of_a_clone() {
        let clone = tempfile::tempdir().unwrap();
        let inside = clone.path().join("crates/xtask");
        std::fs::create_dir_all(clone.path().join("crates/api/src")).unwrap();
        std::fs::create_dir_all(&inside).unwrap();
        assert_eq!(root_above(&inside), None);
        std::fs::write(inside.join("Cargo.toml"), "").unwrap();
        for start in
            [inside, clone.path().join("crates/api/src"), clone.path().join("target/debug/houston-xtask")]
        {
            assert_eq!(root_above(&start).as_deref(), Some(clone.path()), "from {}", start.display());
        }
    }
}
