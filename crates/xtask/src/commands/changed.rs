//! Finds the crates that have changed since the branch left `main`.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result};
use houston_xtask::child::output;
use houston_xtask::repository;
use serde::Deserialize;

/// The part of `cargo metadata` that is needed.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
}

/// The package name: `store` and `houston-store` both give `houston-store`; the library is `houston`.
pub(crate) fn package(name: &str) -> String {
    if name == "houston" || name.starts_with("houston-") {
        name.to_owned()
    } else {
        format!("houston-{name}")
    }
}

/// The packages of the workspace.
pub(crate) fn packages() -> Result<BTreeSet<String>> {
    let mut cargo = repository::cargo();
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let metadata: Metadata = serde_json::from_str(&output(&mut cargo)?)?;
    Ok(metadata.packages.into_iter().map(|package| package.name).collect())
}

/// The packages with committed or uncommitted changes since the branch left `main`.
pub(crate) fn changed() -> Result<BTreeSet<String>> {
    let base = ["main", "origin/main"].iter().find_map(|main| git(&["merge-base", "HEAD", main]).ok());
    let base = base.unwrap_or_else(|| "HEAD".to_owned());
    let since = git(&["diff", "--name-only", &base]).context("`git diff` failed")?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(packages_of(since.lines().chain(new.lines()), &packages()?))
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(repository::root());
    Ok(output(&mut git)?.trim().to_owned())
}

/// The packages that contain or include the files at `paths`.
fn packages_of<'p>(paths: impl Iterator<Item = &'p str>, all: &BTreeSet<String>) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for path in paths {
        let mut parts = path.split('/');
        match (parts.next(), parts.next()) {
            (Some("crates"), Some(folder)) => {
                // A removed crate has no tests.
                changed.extend(Some(package(folder)).filter(|package| all.contains(package)));
            }
            (Some("migrations"), _) => {
                changed.insert(package("store"));
            }
            (Some("jobs"), _) => changed.extend(["domain", "engine", "cli"].map(package)),
            (Some("Cargo.toml" | "Cargo.lock" | "rust-toolchain.toml" | ".clippy.toml"), _) => {
                changed.extend(all.iter().cloned());
            }
            _ => {}
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> BTreeSet<String> {
        ["api", "cli", "domain", "engine", "store"].map(package).into()
    }

    fn of(paths: &[&str]) -> Vec<String> {
        packages_of(paths.iter().copied(), &all()).into_iter().collect()
    }

    #[test]
    fn files_belong_to_the_crates_they_are_compiled_into() {
        assert_eq!(of(&["crates/api/src/lib.rs", "crates/api/Cargo.toml", "README.md"]), ["houston-api"]);
        assert_eq!(of(&["migrations/1_users.sql"]), ["houston-store"]);
        assert_eq!(of(&["migrations/functions/post_message.sql"]), ["houston-store"]);
        assert_eq!(of(&["jobs/agents/goal.toml"]), ["houston-cli", "houston-domain", "houston-engine"]);
        assert_eq!(of(&["crates/removed/src/lib.rs"]), [] as [&str; 0]);
        assert_eq!(of(&["Cargo.lock"]).len(), all().len());
    }

    #[test]
    fn crates_are_named_with_or_without_houston() {
        assert_eq!(package("store"), package("houston-store"));
    }
}
