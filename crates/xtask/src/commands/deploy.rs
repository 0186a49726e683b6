//! `cargo xtask deploy`: checks what is in `deploy/`: units of systemd, image, compose file, chart, proxies, alert rules, packages.
//!
//! The checks are scripts in `crates/xtask/deploy`, because what reads these files is there for Python: Helm's own code, and the
//! schemas of Kubernetes. Nothing is deployed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::Args;
use houston_testkit::{child, programs, repository};

/// Check what is in deploy/: units of systemd, image, compose file, Helm chart, proxies, alert rules, packages.
#[derive(Debug, Args)]
pub(crate) struct Deploy {
    /// The binary whose commands and settings the files must name [default: one that is built]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Go on without programs that are missing and cannot be installed; say what is skipped
    #[arg(long)]
    skip_missing: bool,
}

impl Deploy {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let binary = match self.binary {
            Some(binary) => std::path::absolute(binary)?,
            None => {
                child::succeed(repository::cargo_build_like_tests(&["--bin", "houston"])).await?;
                repository::target().join("debug/houston")
            }
        };
        ensure!(binary.is_file(), "{} does not exist", binary.display());
        let wanted = [("systemd-analyze", "systemd"), ("nginx", "nginx"), ("openssl", "openssl")];
        programs::or_skip(self.skip_missing, "units and proxies", programs::packages(&wanted).await)?;
        let has_postgres = programs::find("initdb").is_some() || Path::new("/usr/lib/postgresql").is_dir();
        // Starting servers installs them.
        let postgres = if has_postgres { Ok(()) } else { programs::servers(|_| {}).map(drop) };
        programs::or_skip(self.skip_missing, "the script for Citus", postgres)?;
        let promtool =
            programs::or_skip(self.skip_missing, "alert rules and dashboards", programs::promtool().await)?;
        let folder = repository::root().join("crates/xtask/deploy");
        let wanted = std::fs::read_to_string(folder.join("requirements.txt"))?;
        let python = repository::tools().join("deploy");
        programs::venv(&python, &wanted.lines().collect::<Vec<_>>()).await?;
        let mut pytest = Command::new(python.join("bin/python"));
        pytest.args(["-m", "pytest", "-q", "-ra", "--color=no", "-p", "no:cacheprovider"]);
        pytest.current_dir(&folder).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
        pytest.env("HOUSTON_ROOT", repository::root()).env("HOUSTON_BINARY", binary);
        pytest.envs(promtool.map(|path| ("HOUSTON_PROMTOOL", path)));
        pytest.envs(self.skip_missing.then_some(("HOUSTON_SKIP_MISSING", "1")));
        Ok(child::code(child::run(pytest).await?))
    }
}
