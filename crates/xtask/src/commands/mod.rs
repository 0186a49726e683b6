//! The commands, one file each. Commands of `houston-harness` are forwarded to it.

mod check;
mod clients;
mod deploy;
pub(crate) mod forward;
mod measure;
mod package;
mod prepare;
mod previous;
mod quick;
mod steps;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use houston_testkit::{child, programs, repository};

/// A command of xtask.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Quick(quick::Quick),
    Test(test::Test),
    Check(check::Check),
    Prepare(prepare::Prepare),
    Clients(clients::Clients),
    Package(package::Package),
    Deploy(deploy::Deploy),
    Measure(measure::Measure),
    /// Print how the labelled messages are judged, and how long the rules of messages and plans take
    Analysis,
}

impl Command {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Quick(command) => command.run().await,
            Self::Test(command) => command.run().await,
            Self::Check(command) => command.run().await,
            Self::Prepare(command) => command.run().await,
            Self::Clients(command) => command.run().await,
            Self::Package(command) => command.run().await,
            Self::Deploy(command) => command.run().await,
            Self::Measure(command) => command.run().await,
            Self::Analysis => {
                let mut cargo = repository::cargo();
                cargo.args(["run", "--quiet", "--release", "-p", "houston-domain", "--example", "rules"]);
                Ok(child::code(child::run(cargo).await?))
            }
        }
    }
}

/// The package name: `store` and `houston-store` both give `houston-store`; the library is `houston`.
fn package_name(name: &str) -> String {
    let is_whole = name == "houston" || name.starts_with("houston-");
    if is_whole { name.to_owned() } else { format!("houston-{name}") }
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut git = std::process::Command::new("git");
    Ok(child::output(git.args(arguments).current_dir(repository::root()))?.trim().to_owned())
}

/// `cargo nextest run`, which is installed if it is missing.
async fn nextest() -> Result<std::process::Command> {
    let found = programs::wheel("cargo-nextest", "0.9.148").await?;
    let mut nextest = repository::command_like_cargo(&found);
    nextest.args(["nextest", "run"]);
    Ok(nextest)
}
