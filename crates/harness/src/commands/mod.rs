//! The commands of the harness, one file each.

mod bench;
mod chaos;
mod contract;
mod evidence;
mod failover;
mod prices;
mod prices_test;
mod providers_test;
mod real_model;
mod recovery;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// A command of the harness.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Update prices, limits and capabilities of models
    Prices(prices::Prices),
    /// Compare computed costs with those of the Python package genai-prices
    PricesTest(prices_test::PricesTest),
    /// Measure latency, throughput, memory and storage on real servers
    Bench(bench::Bench),
    /// Inject faults under load, and count violations of Houston's invariants
    Chaos(chaos::Chaos),
    /// Lint the OpenAPI document, and fuzz Houston with valid and invalid requests
    Contract(contract::Contract),
    /// Test Houston against two independent fake providers
    ProvidersTest(providers_test::ProvidersTest),
    /// Run conversations with a small real model over three wires
    RealModel(real_model::RealModel),
    /// Kill and stop workers with runs in flight, and measure how soon others take over
    Recovery(recovery::Recovery),
    /// Lose a pooler, the primary of Postgres or the master of Redis for good, under load
    Failover(failover::Failover),
    /// Run the long tests and measurements, and write a table of their results
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
            Self::Failover(command) => command.run().await,
            Self::Evidence(command) => command.run().await,
        }
    }
}
