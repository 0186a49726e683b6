//! `cargo xtask clients`: installs what the client tests need: packages from npm and PyPI, and Debian's browser and proxies.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use houston_xtask::console::print_status;
use houston_xtask::missing::Missing;
use houston_xtask::{child, programs, repository};

/// Install what the client tests need: packages from npm and PyPI, a browser and two proxies.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    #[command(flatten)]
    missing: Missing,
}

impl Clients {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        install(self.missing).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What was installed.
pub(crate) struct Installed {
    /// The virtual environment with the packages from PyPI.
    python: PathBuf,
    uv: PathBuf,
}

impl Installed {
    /// What the tests read.
    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("XTASK_CLIENTS_PYTHON", self.python.display().to_string()),
            ("XTASK_UV", self.uv.display().to_string()),
        ]
    }
}

/// Installs what is missing.
pub(crate) async fn install(missing: Missing) -> Result<Installed> {
    let folder = repository::root().join("crates/cli/tests/clients");
    missing.or_skip("tests with a browser and proxies", programs::for_clients().await)?;
    npm(&folder).await?;
    let wanted = std::fs::read_to_string(folder.join("requirements.txt"))?;
    let python = repository::tools().join("clients");
    programs::venv(&python, &wanted.lines().collect::<Vec<_>>()).await?;
    Ok(Installed { python, uv: programs::uv().await? })
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
