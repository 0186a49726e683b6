//! `cargo xtask clients`: installs what the client tests need: packages from npm and PyPI, and Debian's browser and proxies.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use houston_testkit::console::print_status;
use houston_testkit::{child, programs, repository};

/// Install what the client tests need: packages from npm and PyPI, a browser and two proxies.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    /// Go on without programs that are missing and cannot be installed; say what is skipped
    #[arg(long)]
    skip_missing: bool,
}

impl Clients {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        install(self.skip_missing).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Installs what is missing; returns the variables that the tests read.
pub(crate) async fn install(skip_missing: bool) -> Result<[(&'static str, PathBuf); 2]> {
    let folder = repository::root().join("crates/cli/tests/clients");
    let wanted = [("chromium", "chromium"), ("haproxy", "haproxy"), ("nginx", "nginx")];
    programs::or_skip(skip_missing, "tests with a browser and proxies", programs::packages(&wanted).await)?;
    npm(&folder).await?;
    let wanted = std::fs::read_to_string(folder.join("requirements.txt"))?;
    let python = repository::tools().join("clients");
    programs::venv(&python, &wanted.lines().collect::<Vec<_>>()).await?;
    Ok([("XTASK_CLIENTS_PYTHON", python), ("XTASK_UV", programs::uv().await?)])
}

/// Installs the packages of `package-lock.json`, unless they are installed.
async fn npm(folder: &std::path::Path) -> Result<()> {
    programs::node().await?;
    let wanted = std::fs::read(folder.join("package-lock.json"))?;
    let mark = folder.join("node_modules/.installed-lock");
    if std::fs::read(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    print_status("installing the npm packages of the client tests");
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]).current_dir(folder);
    child::succeed(npm).await?;
    std::fs::write(mark, wanted)?;
    Ok(())
}
