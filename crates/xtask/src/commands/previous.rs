//! The release before this one, for the test of upgrades: a binary, or a tag, which is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use houston_xtask::child::{self, output};
use houston_xtask::console::print_status;
use houston_xtask::repository;

/// Which release the test of upgrades runs beside this one.
#[derive(Debug, Args)]
pub(crate) struct Previous {
    /// The binary of the release before, which the test of upgrades runs beside this one
    #[arg(long, value_name = "PATH")]
    previous: Option<PathBuf>,
    /// Build that binary from a tag, in a worktree and a target folder of its own, which takes minutes the first time
    #[arg(long, value_name = "TAG", conflicts_with = "previous")]
    previous_tag: Option<String>,
}

impl Previous {
    /// The binary, if a release is named.
    pub(crate) async fn binary(&self) -> Result<Option<PathBuf>> {
        if let Some(tag) = &self.previous_tag {
            return built(tag).await.map(Some);
        }
        let Some(path) = &self.previous else { return Ok(None) };
        let path = std::path::absolute(path)?;
        ensure!(path.is_file(), "--previous: {} does not exist", path.display());
        Ok(Some(path))
    }

    /// What the test of upgrades leaves out if no release is named.
    pub(crate) fn missing(&self) -> Option<String> {
        if self.previous.is_some() || self.previous_tag.is_some() {
            return None;
        }
        let tags = tags(repository::root()).unwrap_or_default();
        let newest = tags.lines().next().map_or_else(|| "there is none here".to_owned(), str::to_owned);
        Some(format!(
            "upgrades: this release runs beside itself; name the one before with --previous-tag TAG ({newest}) or --previous PATH"
        ))
    }
}

/// Builds the binary of a tag, unless it was built before.
async fn built(tag: &str) -> Result<PathBuf> {
    let commit = commit(repository::root(), tag)?;
    let folder = repository::target().join("previous").join(&commit);
    let binary = folder.join("houston");
    if binary.is_file() {
        print_status(&format!("{tag}: built before, at {}", binary.display()));
        return Ok(binary);
    }
    print_status(&format!("building {tag} (this happens once)"));
    std::fs::create_dir_all(&folder)?;
    let tree = Worktree::add(repository::root(), folder.join("tree"), &commit)?;
    let target = folder.join("target");
    let mut cargo = repository::cargo();
    cargo.args(["build", "--quiet", "--locked", "--package", "houston-cli", "--bin", "houston"]);
    cargo.current_dir(&tree.path).env("CARGO_TARGET_DIR", &target);
    child::succeed(cargo).await.with_context(|| format!("{tag} cannot be built"))?;
    std::fs::rename(target.join("debug/houston"), &binary)?;
    Ok(binary)
}

/// The commit of a tag.
fn commit(repository: &Path, tag: &str) -> Result<String> {
    let name = format!("refs/tags/{tag}^{{commit}}");
    if let Ok(commit) = git(repository, &["rev-parse", "--verify", "--quiet", &name]) {
        return Ok(commit.trim().to_owned());
    }
    let tags = tags(repository)?;
    if tags.is_empty() {
        bail!(
            "there is no tag `{tag}`: this clone has no tags. `git fetch --tags` fetches those of releases; if there is no release \
             yet, --previous names a binary that was built from an older commit"
        );
    }
    bail!("there is no tag `{tag}`; the tags are {}", tags.replace('\n', ", "))
}

/// The tags, the newest version first.
fn tags(repository: &Path) -> Result<String> {
    Ok(git(repository, &["tag", "--list", "--sort=-version:refname"])?.trim().to_owned())
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String> {
    output(Command::new("git").arg("-C").arg(repository).args(arguments))
}

/// The files of a commit, in a folder; removed when this is dropped.
#[derive(Debug)]
struct Worktree {
    repository: PathBuf,
    path: PathBuf,
}

impl Worktree {
    fn add(repository: &Path, path: PathBuf, commit: &str) -> Result<Self> {
        // Of a command that was killed.
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        git(repository, &["worktree", "prune"])?;
        let tree = Self { repository: repository.to_owned(), path };
        git(repository, &["worktree", "add", "--quiet", "--detach", &tree.name(), commit])?;
        Ok(tree)
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        let _ = git(&self.repository, &["worktree", "remove", "--force", &self.name()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_and_a_missing_one_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("clone");
        std::fs::create_dir(&repository).unwrap();
        let git = |arguments: &[&str]| git(&repository, arguments).unwrap();
        git(&["init", "--quiet"]);
        let error = commit(&repository, "v1").unwrap_err().to_string();
        assert!(error.contains("this clone has no tags"), "{error}");
        let author = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"];
        std::fs::write(repository.join("file"), "of the release").unwrap();
        git(&["add", "file"]);
        git(&[&author[..], &["commit", "--quiet", "-m", "Release"]].concat());
        git(&["tag", "v0.9.0"]);
        git(&["tag", "v0.10.0"]);
        let error = commit(&repository, "v1").unwrap_err().to_string();
        assert_eq!(error, "there is no tag `v1`; the tags are v0.10.0, v0.9.0");
        let found = commit(&repository, "v0.9.0").unwrap();
        std::fs::write(repository.join("file"), "changed since").unwrap();
        let path = folder.path().join("tree");
        // Twice: what a killed command has left is no obstacle.
        std::mem::forget(Worktree::add(&repository, path.clone(), &found).unwrap());
        let tree = Worktree::add(&repository, path.clone(), &found).unwrap();
        assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "of the release");
        drop(tree);
        assert!(!path.exists());
    }
}
