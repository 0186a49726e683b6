//! `cargo xtask clients`: installs the npm packages of the client tests.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use houston_xtask::console::print_status;
use houston_xtask::{child, programs, repository};

/// Install the npm packages of the client tests.
#[derive(Debug, Args)]
pub(crate) struct Clients {}

impl Clients {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        if install().await?.is_none() {
            print_status("there are no client tests: crates/cli/tests/clients/package.json is missing");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Installs the packages of `package-lock.json`, unless they are installed. Returns the folder, if it exists.
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
    print_status("installing the npm packages of the client tests");
    let mut npm = Command::new("npm");
    npm.args(if wanted.is_some() { &["ci"][..] } else { &["install", "--no-package-lock"] });
    npm.args(["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(&folder);
    child::succeed(npm).await?;
    if let Some(lock) = wanted {
        std::fs::write(mark, lock)?;
    }
    Ok(Some(folder))
}
