//! The release before this one, for the test of upgrades: a binary, or a tag, which is built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_testkit::child::{self, output};
use houston_testkit::console::print_status;
use houston_testkit::repository;

/// Which release the test of upgrades runs beside this one.
#[derive(Debug, Args)]
pub(crate) struct Previous {
    /// The binary of the release before, which the test of upgrades runs beside this one
    #[arg(long, value_name = "PATH")]
    previous: Option<PathBuf>,
    /// Build that binary from a tag, in a folder of its own, which takes minutes the first time
    #[arg(long, value_name = "TAG", conflicts_with = "previous")]
    previous_tag: Option<String>,
}

impl Previous {
    /// The binary, if a release is named. If none is, `is_run` says whether the test of upgrades is among the tests.
    pub(crate) async fn binary(&self, is_run: bool) -> Result<Option<PathBuf>> {
        if let Some(tag) = &self.previous_tag {
            return built(tag).await.map(Some);
        }
        let Some(path) = &self.previous else {
            if is_run {
                let tags = tags(repository::root()).unwrap_or_default();
                let newest = tags.lines().next().unwrap_or("there is none here");
                print_status(&format!(
                    "upgrades: this release runs beside itself; name the one before with --previous-tag TAG ({newest}) or \
                     --previous PATH"
                ));
            }
            return Ok(None);
        };
        let path = std::path::absolute(path)?;
        ensure!(path.is_file(), "--previous: {} does not exist", path.display());
        Ok(Some(path))
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
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    std::fs::create_dir_all(&tree)?;
    let archive = folder.join("tree.tar");
    git(repository::root(), &["archive", "--output", &archive.display().to_string(), &commit])?;
    output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&tree))?;
    let mut cargo = repository::cargo();
    cargo.args(["build", "--quiet", "--locked", "--package", "houston-cli", "--bin", "houston"]);
    cargo.current_dir(&tree).env("CARGO_TARGET_DIR", &target);
    child::succeed(cargo).await.with_context(|| format!("{tag} cannot be built"))?;
    std::fs::rename(target.join("debug/houston"), &binary)?;
    Ok(binary)
}

/// The commit of a tag.
fn commit(repository: &Path, tag: &str) -> Result<String> {
    let found =
        git(repository, &["rev-parse", "--verify", "--quiet", &format!("refs/tags/{tag}^{{commit}}")]);
    found.or_else(|_| {
        let tags = tags(repository)?;
        ensure!(
            !tags.is_empty(),
            "there is no tag `{tag}`: this clone has no tags. `git fetch --tags` fetches those of releases; if there is no \
             release yet, --previous names a binary that was built from an older commit"
        );
        Err(anyhow::anyhow!("there is no tag `{tag}`; the tags are {}", tags.replace('\n', ", ")))
    })
}

/// The tags, the newest version first.
fn tags(repository: &Path) -> Result<String> {
    git(repository, &["tag", "--list", "--sort=-version:refname"])
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String> {
    Ok(output(Command::new("git").arg("-C").arg(repository).args(arguments))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_and_a_missing_one_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| git(folder.path(), arguments).unwrap();
        git(&["init", "--quiet"]);
        let error = commit(folder.path(), "v1").unwrap_err().to_string();
        assert!(error.contains("this clone has no tags"), "{error}");
        let author = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"];
        git(&[&author[..], &["commit", "--quiet", "--allow-empty", "-m", "Release"]].concat());
        git(&["tag", "v0.9.0"]);
        git(&["tag", "v0.10.0"]);
        let error = commit(folder.path(), "v1").unwrap_err().to_string();
        assert_eq!(error, "there is no tag `v1`; the tags are v0.10.0, v0.9.0");
        assert_eq!(commit(folder.path(), "v0.9.0").unwrap(), git(&["rev-parse", "HEAD"]));
    }
}
