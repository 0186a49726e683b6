//! The commands, one file each.

mod bench;
mod chaos;
mod contract;
mod evidence;
mod prices;
mod prices_test;
mod providers_test;
mod real_model;
mod recovery;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// What the harness can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Fetch prices, limits and capabilities of models anew
    Prices(prices::Prices),
    /// Compare costs with those of genai-prices' Python package
    PricesTest(prices_test::PricesTest),
    /// Measure latency, throughput, memory and storage on real servers
    Bench(bench::Bench),
    /// Make everything go wrong at once, and count what was lost, doubled or out of order
    Chaos(chaos::Chaos),
    /// Lint the OpenAPI document, and fuzz a Houston with what it allows and what it does not
    Contract(contract::Contract),
    /// Let two independent fake providers judge Houston
    ProvidersTest(providers_test::ProvidersTest),
    /// Talk with a small real model over three wires
    RealModel(real_model::RealModel),
    /// Kill and stop workers with runs in flight, and measure how soon others go on
    Recovery(recovery::Recovery),
    /// Run everything that takes long, and write what it found into one table
    Evidence(evidence::EvidenceOf),
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
            Self::Recovery(command) => command.run().await,
            Self::Evidence(command) => command.run().await,
        }
    }
}
