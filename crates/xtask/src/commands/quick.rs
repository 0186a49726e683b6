//! `cargo xtask quick`: checks a change within a minute.
//!
//! It runs the unit tests in `src/`, which use no servers (an architecture test checks that), and the architecture tests.

use std::collections::BTreeSet;
use std::fs::read_dir;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_testkit::console::print_status;
use houston_testkit::{child, repository};

use super::prepare::clippy;
use super::steps::Steps;
use super::{check, git, nextest, package_name};

/// Check format and lints, and run the tests without servers of crates changed since `main`
#[derive(Debug, Args)]
pub(crate) struct Quick {
    /// Test these crates, `store` or `houston-store`, instead of the changed ones
    crates: Vec<String>,
}

impl Quick {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let all = packages()?;
        let named: BTreeSet<String> = self.crates.iter().map(|name| package_name(name)).collect();
        let unknown: Vec<&String> = named.difference(&all).collect();
        ensure!(unknown.is_empty(), "no such crate: {unknown:?}; the crates are {all:?}");
        let tested = if named.is_empty() { changed(&all)? } else { named };
        let mut steps = Steps::default();
        steps.run("format", check::format()).await;
        // Cargo rechecks only changed crates and their dependants.
        steps.run("lints", child::succeed(clippy())).await;
        steps.run("tests without servers", test(tested)).await;
        Ok(steps.end("quick: all passed"))
    }
}

/// The packages of the workspace.
fn packages() -> Result<BTreeSet<String>> {
    let folders = read_dir(repository::root().join("crates"))?.flatten();
    let folders = folders.filter(|folder| folder.path().join("Cargo.toml").is_file());
    Ok(folders.map(|folder| package_name(&folder.file_name().to_string_lossy())).collect())
}

/// The packages with committed or uncommitted changes since the branch left `main`.
fn changed(all: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let base = ["main", "origin/main"].iter().find_map(|main| git(&["merge-base", "HEAD", main]).ok());
    let base = base.unwrap_or_else(|| "HEAD".to_owned());
    let since = git(&["diff", "--name-only", &base]).context("`git diff` failed")?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(since.lines().chain(new.lines()).flat_map(|path| packages_of(path, all)).collect())
}

/// The packages that contain or include a file.
fn packages_of(path: &str, all: &BTreeSet<String>) -> BTreeSet<String> {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        // A removed crate has no tests.
        ["crates", folder, ..] => all.get(&package_name(folder)).cloned().into_iter().collect(),
        ["migrations", ..] => [package_name("store")].into(),
        ["jobs", ..] => ["domain", "engine", "cli"].map(package_name).into(),
        ["Cargo.toml" | "Cargo.lock" | "rust-toolchain.toml" | ".clippy.toml"] => all.clone(),
        _ => BTreeSet::new(),
    }
}

async fn test(mut packages: BTreeSet<String>) -> Result<()> {
    // The architecture tests are in xtask.
    packages.insert(package_name("xtask"));
    print_status(&format!("   of {}", packages.iter().cloned().collect::<Vec<_>>().join(", ")));
    let mut nextest = nextest().await?;
    // Built for the whole workspace: a selection of crates would build their dependencies again, with other features.
    nextest.args(["--workspace", "--lib", "--bins", "--test", "architecture"]);
    let names: Vec<String> = packages.iter().map(|name| format!("package({name})")).collect();
    let recorded =
        if repository::recordings().is_dir() { "" } else { " and not test(/^tests::recordings::/)" };
    nextest.args(["--filterset", &format!("({}){recorded}", names.join(" or "))]);
    nextest.args(["--cargo-quiet", "--status-level", "fail"]);
    child::succeed(nextest).await.context("tests failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_crates_they_are_compiled_into() {
        let all: BTreeSet<String> = ["api", "cli", "domain", "engine", "store"].map(package_name).into();
        for (path, expected) in [
            ("crates/api/src/lib.rs", "houston-api"),
            ("README.md", ""),
            ("crates/removed/src/lib.rs", ""),
            ("jobs/agents/goal.toml", "houston-cli houston-domain houston-engine"),
            ("Cargo.lock", "houston-api houston-cli houston-domain houston-engine houston-store"),
        ] {
            let found: Vec<String> = packages_of(path, &all).into_iter().collect();
            assert_eq!(found.join(" "), expected, "{path}");
        }
    }
}
