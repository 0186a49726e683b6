//! `cargo xtask package`: makes packages of one binary, in `target/package`: a tarball, a `.deb`, a wheel and an npm package.
//!
//! The same binary gives the same bytes: entries are sorted, times are fixed, and all files belong to root.

mod archive;
mod check;
mod contents;
mod deb;
mod elf;
mod npm;
mod tarball;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use flate2::Compression;
use houston_xtask::console::{print, print_status};
use houston_xtask::scratch::Scratch;
use houston_xtask::{child, programs, repository};
use sha2::{Digest, Sha256};

use self::contents::Contents;

/// Build packages: a tarball, a .deb, a wheel and an npm package.
#[derive(Debug, Args)]
pub(crate) struct Package {
    /// Package this binary, instead of building one with the profile `dist`, which takes many minutes
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Build these packages only [default: all]
    #[arg(long = "kind", value_name = "KIND", value_enum)]
    kinds: Vec<Kind>,
    /// Do not compress: for the binary of a debug build, in tests
    #[arg(long)]
    stored: bool,
    /// Install each package into a clean folder, and run it until the simulated model has answered a message
    #[arg(long)]
    check: bool,
    /// With --check: hide the Postgres and Redis of this machine, and run as a user without rights; only root can
    #[arg(long, requires = "check")]
    fresh: bool,
    /// The folder of the packages [default: target/package]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// A package, as a file.
struct Built {
    kind: Kind,
    path: PathBuf,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Tarball,
    Deb,
    Wheel,
    Npm,
}

impl Package {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let output = self.output.clone().unwrap_or_else(|| repository::target().join("package"));
        let binary = match &self.binary {
            Some(binary) => std::path::absolute(binary)?,
            None => build().await?,
        };
        let scratch = Scratch::new()?;
        let binary = stripped(&binary, &scratch.path().join("houston")).await?;
        let contents = Contents::of(&binary, scratch.path())?;
        drop(scratch);
        let compression = if self.stored { Compression::none() } else { Compression::best() };
        let kinds = if self.kinds.is_empty() { Kind::value_variants() } else { self.kinds.as_slice() };
        let built = write(&contents, kinds, compression, &output)?;
        for package in &built {
            let mib = std::fs::metadata(&package.path)?.len() as f64 / f64::from(1 << 20);
            print(&format!("{mib:7.1} MiB  {}", package.path.display()))?;
        }
        if self.check {
            return check::run(&built, self.fresh).await;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Builds the binary that is deployed.
async fn build() -> Result<PathBuf> {
    print_status("building houston with the profile `dist` (this takes many minutes)");
    let mut cargo = repository::cargo();
    cargo.args(["build", "--quiet", "--locked", "--profile", "dist", "--package", "houston-cli"]);
    child::succeed(cargo).await?;
    Ok(repository::target().join("dist/houston"))
}

/// A copy without symbols, if there is a `strip`: builds with the profile `dist` have none.
async fn stripped(binary: &Path, to: &Path) -> Result<PathBuf> {
    let Some(strip) = programs::find("strip") else { return Ok(binary.to_owned()) };
    let mut command = Command::new(strip);
    command.arg("-o").arg(to).arg(binary);
    child::succeed(command).await?;
    Ok(to.to_owned())
}

/// Writes packages, and a file with their hashes.
fn write(contents: &Contents, kinds: &[Kind], compression: Compression, output: &Path) -> Result<Vec<Built>> {
    std::fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    let (mut built, mut sums) = (Vec::new(), String::new());
    for &kind in kinds {
        let (name, bytes) = match kind {
            Kind::Tarball => (tarball::name(contents), tarball::bytes(contents, compression)?),
            Kind::Deb => (deb::name(contents), deb::bytes(contents, compression)?),
            Kind::Wheel => (wheel::name(contents), wheel::bytes(contents, compression)?),
            Kind::Npm => (npm::name(contents), npm::bytes(contents, compression)?),
        };
        let path = output.join(&name);
        std::fs::write(&path, &bytes).with_context(|| path.display().to_string())?;
        sums.push_str(&format!("{}  {name}\n", hex(&Sha256::digest(&bytes))));
        built.push(Built { kind, path });
    }
    std::fs::write(output.join("SHA256SUMS"), sums)?;
    Ok(built)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
