//! Where things are, and running cargo there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository this binary was built in.
pub(crate) fn root() -> &'static Path {
    const HERE: &str = env!("CARGO_MANIFEST_DIR");
    Path::new(HERE).ancestors().nth(2).unwrap_or(Path::new(HERE))
}

/// Cargo's target folder; whatever is installed for the repository alone lies in there too.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Programs installed for the repository alone.
pub(crate) fn tools() -> PathBuf {
    target().join("tools")
}

/// The cargo that runs this program; without one, whichever is found.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// `cargo` in the root.
pub(crate) fn cargo() -> Command {
    beside_cargo(Path::new(&cargo_program()))
}

/// A program that builds as cargo does, in the root. Queries are checked against the prepared ones, so that a build
/// needs no database.
pub(crate) fn beside_cargo(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env("SQLX_OFFLINE", "true").env_remove("DATABASE_URL");
    forget_package(&mut command);
    command
}

/// Takes away what `cargo run` told this program of its own package. Build scripts look at such variables: an inner
/// cargo that sees them would build again what an outer one has built, and the other way round.
pub(crate) fn forget_package(command: &mut Command) {
    const ITS_OWN: [&str; 5] =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_PACKAGE"];
    for (name, _) in std::env::vars_os() {
        if ITS_OWN.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
}
