//! The release before this one, for the test of upgrades: a binary, or a tag, which is built.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_testkit::child::{self, output};
use houston_testkit::console::print_status;
use houston_testkit::repository;

use super::git;

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
        if is_run && self.previous.is_none() {
            print_status(
                "upgrades: this release runs beside itself; name the one before with --previous-tag TAG or --previous PATH",
            );
        }
        let path = self.previous.as_ref().map(std::path::absolute).transpose()?;
        ensure!(path.as_ref().is_none_or(|path| path.is_file()), "--previous: {path:?} does not exist");
        Ok(path)
    }
}

/// Builds the binary of a tag, unless it was built before.
async fn built(tag: &str) -> Result<PathBuf> {
    let commit = git(&["rev-parse", "--verify", "--quiet", &format!("refs/tags/{tag}^{{commit}}")]);
    let commit = commit.with_context(|| {
        let tags = git(&["tag", "--list", "--sort=-version:refname"]).unwrap_or_default().replace('\n', ", ");
        format!("there is no tag `{tag}`; this clone has [{tags}], and `git fetch --tags` fetches those of releases")
    })?;
    let folder = repository::target().join("previous").join(&commit);
    let binary = folder.join("houston");
    if binary.is_file() {
        print_status(&format!("{tag}: built before, at {}", binary.display()));
        return Ok(binary);
    }
    print_status(&format!("building {tag} (this happens once)"));
    let (tree, target, archive) = (folder.join("tree"), folder.join("target"), folder.join("tree.tar"));
    std::fs::create_dir_all(&tree)?;
    git(&["archive", "--output", &archive.display().to_string(), &commit])?;
    output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&tree))?;
    let mut cargo = repository::cargo();
    cargo.args(["build", "--quiet", "--locked", "--package", "houston-cli", "--bin", "houston"]);
    cargo.current_dir(&tree).env("CARGO_TARGET_DIR", &target);
    child::succeed(cargo).await.with_context(|| format!("{tag} cannot be built"))?;
    std::fs::rename(target.join("debug/houston"), &binary)?;
    Ok(binary)
}
