//! The commands, one file each. Commands of `houston-harness` are forwarded to it.

mod advisories;
mod analysis;
mod changed;
mod check;
mod clients;
mod deploy;
mod harness;
mod package;
mod prepare;
mod previous;
mod quick;
mod rules;
mod steps;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use self::harness::Forwarded;

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
    /// Update the copy of the RustSec database
    Advisories(advisories::Advisories),
    /// Install the npm packages of the client tests
    Clients(clients::Clients),
    /// Build packages: a tarball, a .deb, a wheel and an npm package
    Package(package::Package),
    /// Check what is in deploy/: units of systemd, image, compose file, Helm chart, proxies
    Deploy(deploy::Deploy),
    /// Print how the labelled messages are judged, and how long the rules of messages and plans take
    Analysis(analysis::Analysis),
    /// Update prices, limits and capabilities of models
    #[command(disable_help_flag = true)]
    Prices(Forwarded),
    /// Compare computed costs with those of the Python package genai-prices
    #[command(disable_help_flag = true)]
    PricesTest(Forwarded),
    /// Measure latency, throughput, memory and storage on real servers
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Inject faults under load, and count violations of Houston's invariants
    #[command(disable_help_flag = true)]
    Chaos(Forwarded),
    /// Lint the OpenAPI document, and fuzz Houston with valid and invalid requests
    #[command(disable_help_flag = true)]
    Contract(Forwarded),
    /// Test Houston against two independent fake providers
    #[command(disable_help_flag = true)]
    ProvidersTest(Forwarded),
    /// Run conversations with a small real model over three wires
    #[command(disable_help_flag = true)]
    RealModel(Forwarded),
    /// Kill and stop workers with runs in flight, and measure how soon others take over
    #[command(disable_help_flag = true)]
    Recovery(Forwarded),
    /// Lose a pooler, the primary of Postgres or the master of Redis for good, under load
    #[command(disable_help_flag = true)]
    Failover(Forwarded),
    /// Run the long tests and measurements, and write a table of their results
    #[command(disable_help_flag = true)]
    Evidence(Forwarded),
}

impl Command {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Quick(command) => command.run().await,
            Self::Test(command) => command.run().await,
            Self::Check(command) => command.run().await,
            Self::Prepare(command) => command.run().await,
            Self::Advisories(command) => command.run().await,
            Self::Clients(command) => command.run().await,
            Self::Package(command) => command.run().await,
            Self::Deploy(command) => command.run().await,
            Self::Analysis(command) => command.run().await,
            Self::Prices(arguments) => arguments.run("prices").await,
            Self::PricesTest(arguments) => arguments.run("prices-test").await,
            Self::Bench(arguments) => arguments.run("bench").await,
            Self::Chaos(arguments) => arguments.run("chaos").await,
            Self::Contract(arguments) => arguments.run("contract").await,
            Self::ProvidersTest(arguments) => arguments.run("providers-test").await,
            Self::RealModel(arguments) => arguments.run("real-model").await,
            Self::Recovery(arguments) => arguments.run("recovery").await,
            Self::Failover(arguments) => arguments.run("failover").await,
            Self::Evidence(arguments) => arguments.run("evidence").await,
        }
    }
}
