//! `cargo xtask clients`: the npm packages that the client tests use.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use houston_xtask::console::tell;
use houston_xtask::{child, programs, repository};

/// Install the npm packages of the client tests.
#[derive(Debug, Args)]
pub(crate) struct Clients {}

impl Clients {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        if install().await?.is_none() {
            tell("there are no client tests: crates/cli/tests/clients/package.json is missing");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Installs what `package-lock.json` says, unless it is there already. Returns the folder, if there is one.
pub(crate) async fn install() -> Result<Option<PathBuf>> {
    let folder = repository::root().join("crates/cli/tests/clients");
    if !folder.join("package.json").is_file() {
        return Ok(None);
    }
    programs::node().await?;
    let lock = folder.join("package-lock.json");
    let mark = folder.join("node_modules/.installed-lock");
    let wanted = std::fs::read(&lock).ok();
    if wanted.is_some() && std::fs::read(&mark).ok() == wanted {
        return Ok(Some(folder));
    }
    tell("installing the npm packages of the client tests");
    let mut npm = Command::new("npm");
    npm.args(if wanted.is_some() { &["ci"][..] } else { &["install", "--no-package-lock"] });
    npm.args(["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(&folder);
    child::succeed(npm).await?;
    if let Some(lock) = wanted {
        std::fs::write(mark, lock)?;
    }
    Ok(Some(folder))
}
