//! The commands, one file each. Commands of `houston-harness` are forwarded to it.

mod changed;
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
use houston_testkit::{child, repository};

/// A command of xtask.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check format and lints, and run the tests without servers of crates changed since `main`
    Quick(quick::Quick),
    /// Run all tests, or those of some crates, on throw-away servers
    Test(test::Test),
    /// Check format, lints, architecture, prepared queries, documentation, dependencies and advisories
    Check(check::Check),
    /// Update the prepared queries in crates/store/.sqlx
    Prepare(prepare::Prepare),
    /// Install what the client tests need: packages from npm and PyPI, a browser and two proxies
    Clients(clients::Clients),
    /// Build packages: a tarball, a .deb, a wheel and an npm package
    Package(package::Package),
    /// Check what is in deploy/: units of systemd, image, compose file, Helm chart, proxies, alert rules, packages
    Deploy(deploy::Deploy),
    /// Print the weight of this checkout: lines, packages, and with --build how long builds take
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
