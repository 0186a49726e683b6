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
mod versions;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use flate2::Compression;
use houston_xtask::console::{print, print_status};
use houston_xtask::scratch::Scratch;
use houston_xtask::{child, programs, repository};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use self::check::{How, Seconds};
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
    /// With --check: install the tarball and the .deb into one root, where the second one goes on with the data of the first
    #[arg(long, requires = "check")]
    together: bool,
    /// With --check: fail if the first answer comes later than this after the start of `houston dev`; 0 judges no time
    /// [default: 15, or 0 with --stored]
    #[arg(long, requires = "check", value_name = "SECONDS")]
    within: Option<u32>,
    /// Print one JSON array instead of lines
    #[arg(long)]
    json: bool,
    /// The folder of the packages [default: target/package]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Seconds from the start of `houston dev` to the first answer, at most.
const FIRST_ANSWER: u32 = 15;

/// A package, as a file.
struct Built {
    kind: Kind,
    path: PathBuf,
}

impl Built {
    fn line(&self, mib: f64, seconds: Option<Seconds>) -> String {
        let took = seconds.map_or_else(String::new, |Seconds { installed, answered }| {
            format!("  installed in {installed:.1} s, first answer after {answered:.1} s")
        });
        format!("{mib:7.1} MiB  {}{took}", self.path.display())
    }

    fn json(&self, mib: f64, seconds: Option<Seconds>) -> Value {
        json!({
            "kind": self.kind.name(),
            "path": self.path.display().to_string(),
            "mib": mib,
            "installed_s": seconds.map(|seconds| seconds.installed),
            "answered_s": seconds.map(|seconds| seconds.answered),
        })
    }
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
    fn name(self) -> &'static str {
        match self {
            Self::Tarball => "tarball",
            Self::Deb => "deb",
            Self::Wheel => "wheel",
            Self::Npm => "npm package",
        }
    }

    /// How the format writes a version.
    fn version(self, version: &str) -> Result<String> {
        match self {
            Self::Tarball | Self::Npm => Ok(version.to_owned()),
            Self::Deb => Ok(versions::debian(version)),
            Self::Wheel => versions::python(version),
        }
    }
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
        let (seconds, code) = match self.check {
            true => check::run(&built, self.how()).await?,
            false => (Vec::new(), ExitCode::SUCCESS),
        };
        let mut rows = Vec::new();
        for (nth, package) in built.iter().enumerate() {
            let mib = std::fs::metadata(&package.path)?.len() as f64 / f64::from(1 << 20);
            let seconds = seconds.get(nth).copied().flatten();
            match self.json {
                true => rows.push(package.json(mib, seconds)),
                false => print(&package.line(mib, seconds))?,
            }
        }
        if self.json {
            print(&serde_json::to_string(&rows)?)?;
        }
        Ok(code)
    }

    fn how(&self) -> How {
        let limit = self.within.unwrap_or(if self.stored { 0 } else { FIRST_ANSWER });
        How { fresh: self.fresh, together: self.together, limit: Some(limit).filter(|limit| *limit > 0) }
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
            Kind::Wheel => (wheel::name(contents)?, wheel::bytes(contents, compression)?),
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
