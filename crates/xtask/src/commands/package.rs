//! `cargo xtask package`: makes packages of one binary, in `target/package`: a tarball, a `.deb`, a wheel and an npm package.
//! `deploy/packages/pack` does it; this builds the binary, and installs and runs what was made.

mod check;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use houston_testkit::console::{print, print_status};
use houston_testkit::{child, programs, repository};

use self::check::How;

/// Build packages: a tarball, a .deb, a wheel and an npm package.
#[derive(Debug, Args)]
pub(crate) struct Package {
    /// Package this binary, instead of building the release, which takes about ten minutes
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Build these packages only [default: all]
    #[arg(long = "kind", value_name = "KIND", value_enum)]
    kinds: Vec<Kind>,
    /// Compress little: for the binary of a debug build, in tests
    #[arg(long)]
    stored: bool,
    /// Install each package into a clean folder, and run it until the simulated model has answered a message
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    how: How,
    /// The folder of the packages [default: target/package]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// A package, as a file.
struct Built {
    kind: Kind,
    path: PathBuf,
    /// What its program prints: `houston 1.2.0`.
    version: String,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Tarball,
    Deb,
    Wheel,
    Npm,
}

impl Kind {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Package {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let output = self.output.clone().unwrap_or_else(|| repository::target().join("package"));
        let binary = match &self.binary {
            Some(binary) => std::path::absolute(binary)?,
            None => build().await?,
        };
        let built = self.pack(&binary, &std::path::absolute(output)?).await?;
        let code = match self.check {
            true => check::run(&built, self.how, self.stored).await?,
            false => ExitCode::SUCCESS,
        };
        for Built { path, .. } in &built {
            let mib = std::fs::metadata(path)?.len() as f64 / f64::from(1 << 20);
            print(&format!("{mib:7.1} MiB  {}", path.display()))?;
        }
        Ok(code)
    }

    async fn pack(&self, binary: &Path, output: &Path) -> Result<Vec<Built>> {
        let kinds = if self.kinds.is_empty() { Kind::value_variants() } else { self.kinds.as_slice() };
        let mut pack = Command::new(repository::root().join("deploy/packages/pack"));
        pack.arg(binary).arg(output).arg(if self.stored { "1" } else { "9" });
        pack.args(kinds.iter().map(|kind| kind.name()));
        if kinds.contains(&Kind::Wheel) {
            let python = repository::tools().join("wheel");
            programs::venv(&python, &["wheel==0.45.1"]).await?;
            pack.env("PYTHON", python.join("bin/python"));
        }
        print_status(&format!("packing {}", binary.display()));
        let paths = child::output(&mut pack).context("packages need the programs of binutils and dpkg")?;
        let version = child::output(Command::new(binary).arg("--version"))?.trim().to_owned();
        let built =
            |(kind, path): (&Kind, &str)| Built { kind: *kind, path: path.into(), version: version.clone() };
        Ok(kinds.iter().zip(paths.lines()).map(built).collect())
    }
}

/// Builds the binary that is deployed.
async fn build() -> Result<PathBuf> {
    print_status("building the release (this takes about ten minutes)");
    let mut cargo = repository::cargo();
    cargo.args(["build", "--quiet", "--locked", "--release", "--package", "houston-cli"]);
    child::succeed(cargo).await?;
    Ok(repository::target().join("release/houston"))
}
