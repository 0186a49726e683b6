//! The commands of the harness, one file each.

mod bench;
mod chaos;
mod contract;
mod evidence;
mod failover;
mod loud;
mod prices;
mod prices_test;
mod providers_test;
mod real_model;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// A command of the harness; the documentation of its arguments is its help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Prices(prices::Prices),
    PricesTest(prices_test::PricesTest),
    Bench(bench::Bench),
    Chaos(chaos::Chaos),
    Contract(contract::Contract),
    ProvidersTest(providers_test::ProvidersTest),
    RealModel(real_model::RealModel),
    Failover(failover::Failover),
    Loud(loud::Loud),
    Evidence(evidence::Evidence),
}

impl Command {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Prices(command) => command.run().await,
            Self::PricesTest(command) => command.run().await,
            Self::Bench(command) => command.run().await,
            Self::Chaos(command) => command.run().await,
            Self::Contract(command) => command.run().await,
            Self::ProvidersTest(command) => command.run().await,
            Self::RealModel(command) => command.run().await,
            Self::Failover(command) => command.run().await,
            Self::Loud(command) => command.run().await,
            Self::Evidence(command) => command.run().await,
        }
    }
}
