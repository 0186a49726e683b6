//! `cargo xtask measure`: prints the weight of this checkout.

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;
use houston_testkit::{child, programs, repository};

/// Print the weight of this checkout beside its aims: lines, packages, and which crates are compiled twice
#[derive(Debug, Args)]
pub(crate) struct Measure {
    /// Also build in an empty target folder, `target/measure`, and time it; takes most of an hour on two cores
    #[arg(long)]
    build: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

impl Measure {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let mut script = Command::new(programs::python().await?);
        script.arg(repository::root().join("crates/xtask/measure/main.py"));
        script.args(self.build.then_some("--build")).args(self.json.then_some("--json"));
        script.current_dir(repository::root()).env("PYTHONDONTWRITEBYTECODE", "1");
        script.env("CARGO", repository::cargo_program()).env("TARGET", repository::target());
        repository::remove_package_variables(&mut script);
        Ok(child::code(child::run(script).await?))
    }
}
