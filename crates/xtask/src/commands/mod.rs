//! The commands, one file each. Those that put load or faults on Houston are `houston-harness`'s.

mod advisories;
mod changed;
mod check;
mod clients;
mod harness;
mod prepare;
mod quick;
mod steps;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use self::harness::Forwarded;

/// What xtask can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check format, lints and the tests that need no servers, of what has changed since `main`
    Quick(quick::Quick),
    /// Run all tests on a Postgres and a Redis of their own, or those of some crates
    Test(test::Test),
    /// Check format, lints, architecture, prepared queries, documentation, dependencies and advisories
    Check(check::Check),
    /// Refresh the prepared queries in crates/store/.sqlx
    Prepare(prepare::Prepare),
    /// Refresh the copy of RustSec's database of advisories
    Advisories(advisories::Advisories),
    /// Install the npm packages of the client tests
    Clients(clients::Clients),
    /// Fetch prices, limits and capabilities of models anew
    #[command(disable_help_flag = true)]
    Prices(Forwarded),
    /// Compare costs with those of genai-prices' Python package
    #[command(disable_help_flag = true)]
    PricesTest(Forwarded),
    /// Measure latency, throughput, memory and storage on real servers
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Make everything go wrong at once, and count what was lost, doubled or out of order
    #[command(disable_help_flag = true)]
    Chaos(Forwarded),
    /// Lint the OpenAPI document, and fuzz a Houston with what it allows and what it does not
    #[command(disable_help_flag = true)]
    Contract(Forwarded),
    /// Let two independent fake providers judge Houston
    #[command(disable_help_flag = true)]
    ProvidersTest(Forwarded),
    /// Talk with a small real model over three wires
    #[command(disable_help_flag = true)]
    RealModel(Forwarded),
    /// Kill and stop workers with runs in flight, and measure how soon others go on
    #[command(disable_help_flag = true)]
    Recovery(Forwarded),
    /// Run everything that takes long, and write what it found into one table
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
            Self::Prices(arguments) => arguments.run("prices").await,
            Self::PricesTest(arguments) => arguments.run("prices-test").await,
            Self::Bench(arguments) => arguments.run("bench").await,
            Self::Chaos(arguments) => arguments.run("chaos").await,
            Self::Contract(arguments) => arguments.run("contract").await,
            Self::ProvidersTest(arguments) => arguments.run("providers-test").await,
            Self::RealModel(arguments) => arguments.run("real-model").await,
            Self::Recovery(arguments) => arguments.run("recovery").await,
            Self::Evidence(arguments) => arguments.run("evidence").await,
        }
    }
}
