//! Finds the crates that have changed since the branch left `main`.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result};
use houston_testkit::child::output;
use houston_testkit::repository;
use serde_json::Value;

/// The package name: `store` and `houston-store` both give `houston-store`; the library is `houston`.
pub(crate) fn package(name: &str) -> String {
    let is_whole = name == "houston" || name.starts_with("houston-");
    if is_whole { name.to_owned() } else { format!("houston-{name}") }
}

/// The packages of the workspace.
pub(crate) fn packages() -> Result<BTreeSet<String>> {
    let mut cargo = repository::cargo();
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let metadata: Value = serde_json::from_str(&output(&mut cargo)?)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.filter_map(|package| Some(package["name"].as_str()?.to_owned())).collect())
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

    #[test]
    fn files_belong_to_the_crates_they_are_compiled_into() {
        let all: BTreeSet<String> = ["api", "cli", "domain", "engine", "houston-store"].map(package).into();
        for (path, expected) in [
            ("crates/api/src/lib.rs", &["houston-api"][..]),
            ("README.md", &[]),
            ("crates/removed/src/lib.rs", &[]),
            ("migrations/functions/post_message.sql", &["houston-store"]),
            ("jobs/agents/goal.toml", &["houston-cli", "houston-domain", "houston-engine"]),
            (
                "Cargo.lock",
                &["houston-api", "houston-cli", "houston-domain", "houston-engine", "houston-store"],
            ),
        ] {
            assert_eq!(
                packages_of([path].into_iter(), &all),
                BTreeSet::from_iter(expected.iter().map(|one| (*one).to_owned())),
                "{path}"
            );
        }
    }
}
