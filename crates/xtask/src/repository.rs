//! Where things are, and running cargo there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The root of the repository, found when the program runs: from the package that `cargo run` names, from the current
/// folder, or from where the program lies. The current folder if none of them is in a clone.
#[must_use]
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

/// The nearest folder at or above `start` that is a clone of Houston.
fn root_above(start: &Path) -> Option<PathBuf> {
    let is_root = |folder: &&Path| folder.join("crates/xtask/Cargo.toml").is_file();
    start.ancestors().find(is_root).map(Path::to_owned)
}

/// Cargo's target folder; whatever is installed for the repository alone lies in there too.
#[must_use]
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Programs installed for the repository alone.
#[must_use]
pub fn tools() -> PathBuf {
    target().join("tools")
}

/// Recorded exchanges with providers, beside the repository: where they lie, whether they are there or not.
#[must_use]
pub fn recordings() -> PathBuf {
    root().join("../shared/fixtures/llm")
}

/// How many recorded exchanges there are: a file `<provider>/<name>.json` each.
#[must_use]
pub fn recorded_exchanges() -> usize {
    let folders = std::fs::read_dir(recordings()).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "json")).count()
}

/// The cargo that runs this program; without one, whichever is found.
#[must_use]
pub fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// `cargo` in the root.
#[must_use]
pub fn cargo() -> Command {
    beside_cargo(Path::new(&cargo_program()))
}

/// `cargo build` of some targets with the features that tests are built with, so that nothing is built twice: cargo
/// turns on the features of dev-dependencies only if a test is among the targets, and takes a small one for that.
#[must_use]
pub fn cargo_build_like_tests(targets: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.args(["build", "--quiet", "--workspace", "--test", "architecture"]).args(targets);
    cargo
}

/// A program that builds as cargo does, in the root. Queries are checked against the prepared ones, so that a build
/// needs no database.
#[must_use]
pub fn beside_cargo(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env("SQLX_OFFLINE", "true").env_remove("DATABASE_URL");
    forget_package(&mut command);
    command
}

/// Takes away what `cargo run` told this program of its own package. Build scripts look at such variables: an inner
/// cargo that sees them would build again what an outer one has built, and the other way round.
pub fn forget_package(command: &mut Command) {
    const ITS_OWN: [&str; 5] =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_PACKAGE"];
    for (name, _) in std::env::vars_os() {
        if ITS_OWN.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_from_wherever_one_is_in_a_clone() {
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
