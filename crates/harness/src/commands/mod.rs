//! The commands of the harness, one file each.

mod chaos;
mod contract;
mod evidence;
mod failover;
mod prices;
mod prices_test;
mod real_model;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::{bench, loud, providers};

/// A command of the harness; the documentation of its arguments is its help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Fetch prices (genai-prices) and limits (litellm) of models, write crates/llm/data, and print what changed.
    Prices,
    PricesTest(prices_test::PricesTest),
    Bench(bench::Bench),
    Chaos(chaos::Chaos),
    Contract(contract::Contract),
    /// Test Houston against two independent fake providers: one injects faults into calls, one speaks five protocols.
    ProvidersTest,
    /// Run conversations with a small real model over three wires.
    RealModel,
    Failover(failover::Failover),
    Loud(loud::Measure),
    Evidence(evidence::Evidence),
}

impl Command {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        match self {
            Self::Prices => prices::run().await,
            Self::PricesTest(command) => command.run().await,
            Self::Bench(command) => command.run().await,
            Self::Chaos(command) => command.run().await,
            Self::Contract(command) => command.run().await,
            Self::ProvidersTest => providers::run().await,
            Self::RealModel => real_model::run().await,
            Self::Failover(command) => command.run().await,
            Self::Loud(command) => command.run().await,
            Self::Evidence(command) => command.run().await,
        }
    }
}
